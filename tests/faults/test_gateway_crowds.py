"""Callers that take what they can get of a gateway: the others must not be refused for it, and probes never."""

from __future__ import annotations

import asyncio
import json
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from api_keys import add_key
from gateways import gateway_process, running_gateway
from http2 import connections
from replicas import Replica

ASK = b'{"texts": ["\xe6\x88\x91\xe6\x9c\x89"], "source_language": "zh", "target_language": "en"}'
OTHER = "127.0.0.2"
"""Another loopback address, by which another caller is told apart."""
HEAD = b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n"
DRIPPING = b"content-length: 1000\r\n\r\n{"
PROBE = b"GET /livez HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def key(keys_file: Path) -> str:
    return add_key(keys_file, "holder")


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access") / "keys.json"


@pytest.fixture(scope="module")
def server(tiny_bundle_repository: Path, keys_file: Path, key: str) -> Iterator[str]:
    """Yield the address of a server that answers callers without a key, and checks keys."""
    assert key
    replica = Replica(tiny_bundle_repository, 0, f"--keys-file={keys_file}")
    replica.ready()
    yield replica.address
    replica.end()


@pytest.fixture(scope="module")
def port(server: str) -> Iterator[int]:
    """Yield the port of a gateway with its defaults, for tests that measure nothing of its process."""
    with gateway_of_a_module(f"--server={server}") as found:
        yield found


@pytest.fixture(scope="module")
def impatient_port(server: str) -> Iterator[int]:
    """Yield the port of a gateway that waits two seconds for a request to arrive."""
    with gateway_of_a_module(f"--server={server}", "--receive-timeout-seconds=2") as found:
        yield found


@contextmanager
def gateway_of_a_module(*flags: str) -> Iterator[int]:
    """Run a gateway process that belongs to no event loop, and yield its port."""
    command = [sys.executable, "-m", "xuanzang.gateway", "--address=127.0.0.1:0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield json.loads(process.stderr.readline())["port"]
        finally:
            process.terminate()
    assert process.returncode == 0


async def exchange(port: int, *pieces: bytes, source: str = "127.0.0.1") -> bytes:
    """Send bytes and return what is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    answer = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(30):
            while piece := await reader.read(65536):
                answer += piece
    except ConnectionError:
        # It was closed while there was more to send.
        pass
    finally:
        writer.close()
    return answer


async def status(port: int, *pieces: bytes, source: str = "127.0.0.1") -> int:
    """Send bytes and return the status of the first answer; 0 if there is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        for piece in pieces:
            writer.write(piece)
        async with asyncio.timeout(30):
            line = await reader.readline()
    except ConnectionError:
        return 0
    finally:
        writer.transport.abort()
    return int(line.split()[1]) if line else 0


def asking(*headers: bytes, body: bytes = ASK) -> bytes:
    lines = (*headers, b"connection: close", b"content-length: %d" % len(body), b"", body)
    return HEAD + b"\r\n".join(lines)


async def test_waiting_connections_leave_room_for_all_others(server: str) -> None:
    nowhere = b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\n" + DRIPPING
    flags = (f"--server={server}", "--max-connections=40", "--receive-timeout-seconds=30")
    async with gateway_process(*flags) as (_, gateway):
        for first in (b"", b"GET /livez HTTP/1.1\r\nx: ", HEAD + DRIPPING, nowhere):
            async with connections(gateway.port, 200, first):
                for source in ("127.0.0.1", OTHER):
                    assert [await status(gateway.port, PROBE, source=source) for _ in range(3)] == [200] * 3, first
                    assert [await status(gateway.port, asking(), source=source) for _ in range(3)] == [200] * 3, first


async def test_a_busy_caller_leaves_places_for_others_and_probes(server: str) -> None:
    several = json.dumps({"texts": ["我有一只猫。"] * 8, "source_language": "zh", "target_language": "en"}).encode()
    async with running_gateway(server, max_concurrent_requests=16, max_connections=64) as gateway:

        async def press() -> list[int]:
            return [await status(gateway.port, asking(body=several)) for _ in range(10)]

        pressing = [asyncio.create_task(press()) for _ in range(24)]
        for _ in range(10):
            assert await status(gateway.port, asking(), source=OTHER) == 200
            assert await status(gateway.port, PROBE) == 200
        assert {each for answers in await asyncio.gather(*pressing) for each in answers} == {200, 429}


async def test_a_body_that_does_not_come_is_not_awaited_for_ever(impatient_port: int) -> None:
    async def answered(path: bytes) -> bytes:
        head = b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\n"
        # To the end: the connection is closed.
        return (await exchange(impatient_port, head)).split()[1]

    paths = (b"/v1/translate", b"/nowhere", b"/livez", b"/page/nothing", b"/v1/models")
    assert {*await asyncio.gather(*map(answered, paths))} <= {b"404", b"405", b"408"}


async def test_what_begins_no_request_does_not_keep_a_connection(impatient_port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient_port)
    writer.write(PROBE.replace(b"connection: close\r\n", b""))
    assert b" 200 " in await reader.readuntil(b"}")
    writer.write(b"\r\n")
    async with asyncio.timeout(30):
        assert not await reader.read()
    writer.close()


async def test_trailers_are_no_headers(server: str, key: str) -> None:
    async with running_gateway(server, anonymous=False) as gateway:
        body = b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(ASK), ASK)
        trailer = b"authorization: Bearer %s\r\n" % key.encode()
        assert await status(gateway.port, HEAD + trailer + body + b"\r\n") == 200
        assert await status(gateway.port, HEAD + body + trailer + b"\r\n") == 401


async def test_what_is_no_body_has_an_end(server: str) -> None:
    begins = (CHUNKED + b"\r\n0\r\n", CHUNKED + b"\r\n5;", b"GET /livez HTTP/1.1\r\n")
    async with gateway_process(f"--server={server}") as (process, gateway):
        before = _memory(process.pid)
        for begin in begins:
            for line in (b"x: " + b"y" * 8000 + b"\r\n", b"y" * 8000):
                # More than the buffers of the kernel hold.
                assert b" 200 " not in await exchange(gateway.port, begin, *[line] * 4000)
                assert _memory(process.pid) < before + 30, (begin, line[:1])
        assert await status(gateway.port, PROBE) == 200


async def test_chunks_that_are_nearly_all_frame_have_an_end(port: int) -> None:
    assert await status(port, CHUNKED + b"\r\n", b"1\r\n \r\n" * 100_000) != 200
    few = b"".join(b"1\r\n%c\r\n" % byte for byte in ASK)
    assert await status(port, CHUNKED + b"connection: close\r\n\r\n" + few + b"0\r\n\r\n") == 200


async def test_a_head_over_the_limit_is_refused_however_it_arrives(port: int) -> None:
    head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    fields = [b"x-%d: " % number + b"y" * 1000 + b"\r\n" for number in range(72)]
    assert await status(port, head, *fields[:60], b"\r\n") == 200
    assert await status(port, head + b"".join(fields) + b"\r\n") == 431


async def test_requests_that_are_sent_at_once_are_answered_in_turn(server: str) -> None:
    number = 3000
    one = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with gateway_process(f"--server={server}") as (process, gateway):
        before = _memory(process.pid)
        models = one.replace(b"/livez", b"/v1/models")
        answer = await exchange(gateway.port, (one * number) + models + PROBE)
        assert answer.count(b"HTTP/1.1 200 ") == number + 2
        assert answer.index(b'"models"') > answer.rindex(b'"ok"', 0, answer.index(b'"models"'))
        assert _memory(process.pid) < before + 30


async def test_answers_that_are_not_taken_end_their_connections(server: str) -> None:
    body = b'{"texts": [1,1,1,1,1,1,1,1,1,1]}'
    wrong = b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with gateway_process(f"--server={server}", "--send-timeout-seconds=1") as (process, gateway):
        with socket.socket() as unread:
            unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread.connect(("127.0.0.1", gateway.port))
            unread.setblocking(False)
            with suppress(BlockingIOError):
                while unread.send(wrong * 100):
                    pass
            reset = select.poll()
            reset.register(unread, 0)
            assert await asyncio.to_thread(reset.poll, 30_000)
        length = len(await exchange(gateway.port, wrong.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")))
        process.terminate()
        assert process.stderr is not None
        answered = (await process.stderr.read()).count(b'"request"')
    # What the kernel holds of them, and the event loop.
    assert 100 < answered < 2**20 / length


async def test_a_wrong_key_is_refused_before_a_large_body_comes(server: str, key: str) -> None:
    async with running_gateway(server, anonymous=False) as gateway:
        for path in (b"/v1/translate", b"/v1/documents", b"/v2/document"):
            begin = b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\n"
            for length in (b"content-length: 900000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n40000\r\n"):
                for wrong in (b"", b"authorization: Bearer wrong\r\n"):
                    answer = await status(gateway.port, begin + wrong + length, b" " * 100_000)
                    assert answer in (401, 403), (path, length, wrong)
        right = b"authorization: Bearer " + key.encode()
        assert await status(gateway.port, asking(right, body=ASK + b" " * 900_000)) == 200


async def test_bodies_on_their_way_have_a_share_of_memory(server: str) -> None:
    limits = {"max_body_bytes": 100_000, "max_document_bytes": 1024, "max_body_memory_bytes": 400_000}
    part = HEAD + b"content-length: 90000\r\n\r\n" + b" " * 80_000
    large = asking(body=ASK + b" " * 90_000)
    async with running_gateway(server, **limits, receive_timeout_seconds=30) as gateway:
        refused = False
        while not refused:
            async with connections(gateway.port, 2, part):
                # What is asked before they are read takes their places: then they are refused, and others come.
                assert {await status(gateway.port, PROBE) for _ in range(100)} == {200}
                refused = any([await status(gateway.port, large) == 429 for _ in range(20)])
                of_another = await status(gateway.port, large, source=OTHER)
        assert of_another == 200
        while await status(gateway.port, large) != 200:
            pass


async def test_the_caller_is_the_key_however_it_is_spelled(server: str, key: str) -> None:
    limits: Any = {"caller_share": 0.1, "max_body_memory_bytes": 100_000_000, "max_documents": 9}
    form = (
        b'--b\r\ncontent-disposition: form-data; name="target_lang"\r\n\r\nEN\r\n'
        b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n\xe7\x8c\xab\r\n--b--\r\n'
    )
    spellings = [b"Bearer ", b"bearer ", b"BEARER    ", b"DeepL-Auth-Key ", b"deepl-auth-key \t"]
    async with running_gateway(server, anonymous=False, **limits) as gateway:
        head = b"POST /v2/document HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=b\r\n"
        rest = b"\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(form) + form
        found = [
            await status(gateway.port, head + b"authorization: " + spelling + key.encode() + rest)
            for spelling in spellings
        ]
    assert found == [200] + [429] * (len(spellings) - 1)


@pytest.mark.parametrize(
    ("allowed", "served", "refused"),
    [
        ({}, ("localhost:8080", "127.0.0.1", "127.9.9.9:1", "[::1]:8080", "LOCALHOST."), ("evil.example", "10.0.0.1")),
        ({"allowed_hosts": "mt.example,*.lan"}, ("mt.example:80", "a.lan"), ("localhost", "xmt.example", "lan")),
        ({"allowed_hosts": "*"}, ("evil.example", "10.0.0.1"), ()),
    ],
)
async def test_names_of_other_hosts_are_refused_but_for_probes(
    server: str, allowed: dict[str, str], served: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    async def addressed(path: str, host: str) -> int:
        request = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        return await status(gateway.port, request.encode())

    async with running_gateway(server, **allowed) as gateway:
        for path in ("/v1/models", "/", "/v2/glossaries", "/nowhere"):
            assert {await addressed(path, host) for host in refused} <= {421}
            assert {await addressed(path, host) for host in served} <= {200, 404}
        assert {await addressed(path, host) for host in (*served, *refused) for path in ("/livez", "/health")} == {200}


@pytest.mark.parametrize(
    "body",
    [
        b'{"texts": [' + b"1," * 300_000 + b"1]}",
        b'{"texts": ["a"], "target_language": "en", ' + b'"options": {"x": ' * 5 + b"[1]" + b"}" * 5 + b"}",
        json.dumps({f"field{number}": 1 for number in range(50_000)}).encode(),
        json.dumps({"texts": ["a"], "glossary": {str(number): number for number in range(50_000)}}).encode(),
        json.dumps({"x" * 500_000: 1}).encode(),
    ],
    ids=["elements", "nesting", "fields", "terms", "name"],
)
async def test_wrong_json_gets_a_short_answer(port: int, body: bytes) -> None:
    for path in (b"/v1/translate", b"/v1/explain", b"/translate", b"/v2/translate"):
        request = asking(b"content-type: application/json", body=body).replace(b"/v1/translate", path, 1)
        answer = await exchange(port, request)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert len(answer) < 6000
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2]).get("violations", ())) <= 10


async def test_a_gateway_under_attack_ends_when_it_is_told_to(server: str) -> None:
    unread = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 500
    flags = (f"--server={server}", "--receive-timeout-seconds=60", "--drain-timeout-seconds=3")
    async with gateway_process(*flags) as (process, gateway), AsyncExitStack() as stack:
        for first in (b"", HEAD + b"x: ", HEAD + DRIPPING, CHUNKED + b"\r\n0\r\nx: ", unread):
            await stack.enter_async_context(connections(gateway.port, 50, first))
        assert await status(gateway.port, PROBE) == 200
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        log = await process.stderr.read()
        assert await process.wait() == 0
    assert json.loads(log.splitlines()[-1])["event"] == "stopped"


async def test_what_a_drain_has_no_time_for_is_hung_up_in_order() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        flags = (f"--server=127.0.0.1:{silent.getsockname()[1]}", "--drain-timeout-seconds=3")
        async with gateway_process(*flags) as (process, gateway):
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write((HEAD + b"content-length: %d\r\n\r\n" % len(ASK) + ASK) * 3)
            # The first of them waits for the server.
            asked, _ = await asyncio.to_thread(silent.accept)
            with asked:
                process.send_signal(signal.SIGTERM)
                assert process.stderr is not None
                log = [json.loads(line) for line in (await process.stderr.read()).splitlines()]
                assert await process.wait() == 0
            writer.transport.abort()
    assert [line["status"] for line in log if line["event"] == "request"] == ["hung_up"]
    assert not any("exception" in line for line in log)


async def test_a_drain_that_does_not_end_is_ended_by_the_kernel(server: str) -> None:
    hanging = (
        "import sys, time; from xuanzang.gateway import __main__\n"
        "from xuanzang.gateway.documents.store import DocumentStore\n"
        "DocumentStore.close = lambda _: time.sleep(3600); raise SystemExit(__main__.main(['gateway', *sys.argv[1:]]))"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", hanging, f"--server={server}", "--address=127.0.0.1:0", "--drain-timeout-seconds=1"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    port = json.loads(await process.stderr.readline())["port"]
    assert await status(port, PROBE) == 200
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == -signal.SIGALRM


def _memory(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    lines: Any = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))
