"""Cost of the gateway compared with the bare server: latency of a call, and CPU time of the gateway per call.

    python -m benchmarks.gateway --rounds 10

One server and one gateway. Latency: calls of one sentence are made one after another, in turn through the SDK and
through each API of the gateway over one connection, of HTTP or of gRPC (the Open Inference Protocol). Rate: 16
connections call at once with a text of white space, which the server answers unchanged, so that the gateway is what
works; its CPU time per call says how many calls fill a core, however busy the machine is. Prints a table of each.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import grpc

from benchmarks.harness.bundled_model import bundled_model, our_server
from benchmarks.harness.processes import ServerProcess, cpu_seconds
from xuanzang.client import TranslationClient
from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.inference.v2 import inference_pb2_grpc
from xuanzang.loadtest.loops import closed_loop

PAIR: Any = MappingProxyType({"source_language": "zh", "target_language": "en"})
BODIES: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "/v1/translate": lambda text: {"texts": [text], **PAIR},
        "/v2/translate": lambda text: {"text": [text], "source_lang": "ZH", "target_lang": "EN-GB"},
        "/translate": lambda text: {"q": text, "source": "zh", "target": "en"},
    }
)
GRPC = "ModelInfer, gRPC"
CONNECTIONS = 16
CALLS = 2000


def started_gateway(server: ServerProcess) -> tuple[subprocess.Popen[str], int, int]:
    """Start a gateway and return it with its ports of HTTP and gRPC."""
    free = "127.0.0.1:0"
    flags = ["--server", server.address, "--address", free, "--grpc-address", free, "--log-level", "info"]
    command = [sys.executable, "-m", "xuanzang.gateway", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr, "a pipe, as asked for"
    listening = json.loads(process.stderr.readline())
    # Its lines are written, as in production, and not read.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    return process, listening["port"], listening["grpc_port"]


def over_http(connection: http.client.HTTPConnection, path: str, text: str) -> None:
    """Make one call and read its answer."""
    body = json.dumps(BODIES[path](text))
    connection.request("POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content


def inference(text: str) -> v2.ModelInferRequest:
    """Return the request for a translation by the Open Inference Protocol."""
    languages = {f"{name}_code": v2.InferParameter(string_param=code) for name, code in PAIR.items()}
    tensor = v2.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    return v2.ModelInferRequest(inputs=[tensor], parameters=languages)


def latencies(
    client: TranslationClient, ports: tuple[int, int], texts: Sequence[str], rounds: int
) -> dict[str, list[float]]:
    """Return the milliseconds of calls by way, those of a text one after another."""
    connection = http.client.HTTPConnection("127.0.0.1", ports[0])
    stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{ports[1]}"))
    ways: dict[str, Callable[[str], object]] = {"SDK": lambda text: client.translate([text], **PAIR)}
    for path in BODIES:
        ways[path] = lambda text, path=path: over_http(connection, path, text)  # type: ignore[misc]
    ways[GRPC] = lambda text: stub.ModelInfer(inference(text))
    found: dict[str, list[float]] = {way: [] for way in ways}
    for number, text in enumerate([*texts[:8], *list(texts) * rounds]):
        for way, call in list(ways.items())[number % 5 :] + list(ways.items())[: number % 5]:
            began = time.perf_counter()
            call(text)
            # The first eight texts warm up.
            if number >= 8:
                found[way].append(1000 * (time.perf_counter() - began))
    return found


async def load(port: int, path: str) -> float:
    """Make calls on several connections at once and return the seconds."""
    body = json.dumps(BODIES[path](" ")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )

    free = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    calls = iter(range(CALLS))

    async def call(_due: float) -> None:
        reader, writer = free.pop()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
        free.append((reader, writer))

    began = time.perf_counter()
    await closed_loop(call, callers=CONNECTIONS, is_over=lambda: next(calls, None) is None)
    seconds = time.perf_counter() - began
    for _, writer in free:
        writer.close()
        await writer.wait_closed()
    return seconds


async def load_of_grpc(port: int) -> float:
    """Make calls over gRPC, several at once over one connection, and return the seconds."""
    calls, request = iter(range(CALLS)), inference(" ")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(channel)

        async def call(_due: float) -> None:
            await stub.ModelInfer(request)

        began = time.perf_counter()
        await closed_loop(call, callers=CONNECTIONS, is_over=lambda: next(calls, None) is None)
        return time.perf_counter() - began


def report_latencies(found: Mapping[str, Sequence[float]]) -> None:
    """Print the latencies and what the gateway adds: the median of the differences, text by text."""
    print(f"{'way':16}{'p50 ms':>8}{'p95 ms':>8}{'adds ms':>9}")
    for way, figures in found.items():
        added = statistics.median(each - base for each, base in zip(figures, found["SDK"], strict=True))
        tail = statistics.quantiles(figures, n=20)[-1]
        print(f"{way:16}{statistics.median(figures):8.2f}{tail:8.2f}{added:9.2f}")


def report_rates(gateway: Any, ports: tuple[int, int], rounds: int) -> None:
    """Print the rates, those of the APIs in turn."""
    found: dict[str, list[tuple[float, float]]] = {path: [] for path in (*BODIES, GRPC)}
    for _ in range(rounds + 1):
        for path, figures in found.items():
            before = cpu_seconds(gateway.pid)
            seconds = asyncio.run(load_of_grpc(ports[1]) if path == GRPC else load(ports[0], path))
            figures.append((1000 * (cpu_seconds(gateway.pid) - before) / CALLS, CALLS / seconds))
    print(f"\n{'API':16}{'CPU ms per call':>16}{'calls a core':>14}{'calls/s seen':>14}")
    for path, (_, *figures) in found.items():
        cpu, rate = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"{path:16}{cpu:16.3f}{1000 / cpu:14.0f}{rate:14.0f}")


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of 64 texts, and of 2000 calls of each API")
    rounds = parser.parse_args().rounds
    model = bundled_model(64)
    with our_server(model) as server, TranslationClient(server.address) as client:
        gateway, *found = started_gateway(server)
        ports = found[0], found[1]
        try:
            report_latencies(latencies(client, ports, model.texts, rounds))
            report_rates(gateway, ports, rounds)
        finally:
            gateway.terminate()
            gateway.wait()


if __name__ == "__main__":
    main()
