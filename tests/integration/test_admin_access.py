"""Every command of the operator against a server with TLS and keys, through a relay that reads along."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from api_keys import add_key
from bundle_versions import add_good_version
from tests.integration.conftest import fixture

from xuanzang.client._commands.admin import run_admin_command


class Sniffer:
    """Bytes that have passed through a relay."""

    def __init__(self) -> None:
        self.port = 0
        self.seen = bytearray()
        self.connections = 0

    def has_seen(self, secret: str) -> bool:
        """Return whether a secret passed in clear text, in either direction."""
        return secret.encode() in self.seen


@asynccontextmanager
async def sniffed(port: int) -> AsyncIterator[Sniffer]:
    """Relay connections to a port of this machine, and keep what passes.

    Args:
        port: Port of 127.0.0.1.
    """
    sniffer, relays = Sniffer(), set[asyncio.Task[None] | None]()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                sniffer.seen += data
                writer.write(data)
                await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sniffer.connections += 1
        relays.add(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    # A connection to 0.0.0.0, which is no loopback address by its name, leads here, too.
    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    sniffer.port = server.sockets[0].getsockname()[1]
    async with server:
        yield sniffer
    await asyncio.gather(*filter(None, relays), return_exceptions=True)


# Status 1 of `evaluate` is a verdict: there is no golden set.
COMMANDS: dict[str, tuple[int, ...]] = {
    "list": (0,),
    "evaluate tiny/2": (0, 1),
    "promote tiny/2 --force=tested": (0,),
    "rollback tiny": (0,),
    "pin tiny/2": (0,),
    "unpin tiny": (0,),
    "unload tiny/2": (0,),
    "load tiny/2": (0,),
    "reload": (0,),
}


class Operator:
    """The command, aimed at the relay, with a key of the role admin."""

    def __init__(self, sniffer: Sniffer, key: str, ca: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.sniffer = sniffer
        self.key = key
        self.ca = ca
        self._capsys = capsys

    async def __call__(self, *arguments: str, host: str = "localhost", key: str | None = None) -> tuple[int, str]:
        """Run the command; return its status and what it writes."""
        environment = {
            "XUANZANG_ADMIN_ADDRESS": f"{host}:{self.sniffer.port}",
            "XUANZANG_API_KEY": self.key if key is None else key,
        }
        self._capsys.readouterr()
        try:
            status = await asyncio.to_thread(run_admin_command, arguments, environment=environment)
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err


@fixture
async def operator(
    start_server: Any, tiny_bundle_repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Operator]:
    async with _operated(start_server, tiny_bundle_repository, tmp_path, capsys) as operator:
        yield operator


@asynccontextmanager
async def _operated(
    start_server: Any, tiny: Path, folder: Path, capsys: Any, **settings: Any
) -> AsyncIterator[Operator]:
    """Start a server with TLS and keys, and the relay before its administration."""
    repository = Path(shutil.copytree(tiny, folder / "models"))
    add_good_version(repository, 2)
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own = authority.issue_cert("operator.example.com")
    own.private_key_and_cert_chain_pem.write_to_path(folder / "operator.pem")
    pair = dict.fromkeys(("tls_certificate", "tls_key"), folder / "server.pem")
    keys_file = folder / "keys.json"
    key = add_key(keys_file, "operator", "--role=admin")
    chosen = {"models": repository, "admin_address": "127.0.0.1:0", "promotion": "manual", **pair, **settings}
    async with start_server(keys_file=keys_file, admin_anonymous=False, **chosen) as running:
        assert running.server.admin
        async with sniffed(running.server.admin.port) as sniffer:
            yield Operator(sniffer, key, folder / "ca.pem", capsys)


async def test_every_admin_command_works_and_shows_its_key_to_nobody(operator: Operator) -> None:
    for command, statuses in COMMANDS.items():
        status, written = await operator(*command.split(), f"--tls-ca={operator.ca}")
        assert status in statuses, (command, written)
        assert "UNAUTHENTICATED" not in written
        # The same without its key: so the relay saw calls that needed it.
        status, written = await operator(*command.split(), f"--tls-ca={operator.ca}", key="")
        assert (status, "UNAUTHENTICATED" in written) == (1, True), (command, written)
    assert operator.sniffer.connections == 2 * len(COMMANDS)
    assert not operator.sniffer.has_seen(operator.key)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([], "is not sent to 0.0.0.0:"),
        (["--tls-cert={ca}"], "--tls-cert and --tls-key must be given together"),
        (["--tls-certificate={ca}"], "unrecognized arguments: --tls-certificate"),
    ],
)
async def test_a_key_that_others_could_read_is_refused_before_anything_is_sent(
    operator: Operator, flags: list[str], reason: str
) -> None:
    arguments = [flag.format(ca=operator.ca) for flag in flags]
    for command in ("list", "rollback tiny"):
        status, written = await operator(*command.split(), *arguments, host="0.0.0.0")
        assert (status, reason in written) == (2, True), written
    assert operator.sniffer.connections == 0


async def test_a_key_crosses_a_trusted_network_only_if_that_is_said_and_no_proxy(
    start_server: Any,
    tiny_bundle_repository: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = {"tls_certificate": None, "tls_key": None}
    async with _operated(start_server, tiny_bundle_repository, tmp_path, capsys, **plain) as operator:
        assert (await operator("list", host="0.0.0.0"))[0] == 2
        assert not operator.sniffer.has_seen(operator.key)
        said = await operator("rollback", "tiny", "--allow-insecure-key", host="0.0.0.0")
        assert "FAILED_PRECONDITION" in said[1]
        assert operator.sniffer.has_seen(operator.key)
        async with sniffed(operator.sniffer.port) as proxy:
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
            assert (await operator("list"))[0] == 0
        assert proxy.connections == 0


async def test_a_server_that_asks_for_certificates_is_shown_the_operators_own(
    start_server: Any, tiny_bundle_repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutual = {"tls_client_ca": tmp_path / "ca.pem"}
    async with _operated(start_server, tiny_bundle_repository, tmp_path, capsys, **mutual) as operator:
        flags = [f"--tls-ca={operator.ca}"]
        assert (await operator("list", *flags, "--timeout-seconds=60"))[0] == 1
        own = tmp_path / "operator.pem"
        assert (await operator("list", *flags, f"--tls-cert={own}", f"--tls-key={own}"))[0] == 0
        assert not operator.sniffer.has_seen(operator.key)
