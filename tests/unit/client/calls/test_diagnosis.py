"""TLS, and messages about a wrong address, port or TLS settings."""

from __future__ import annotations

import http.server
import socket
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import pytest
import trustme
from tests.unit.client.conftest import Client, Run, Serve

from xuanzang.client import ServerUnavailableError, TLSConfig, TranslationClient

AUTHORITY = trustme.CA()
PEM = AUTHORITY.cert_pem.bytes()
TRUSTING = TLSConfig(root_certificates=PEM)


def credentials(*names: str, by: trustme.CA = AUTHORITY, ask_client: bool = False) -> grpc.ServerCredentials:
    issued = by.issue_cert(*(names or ("localhost", "127.0.0.1")))
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    return grpc.ssl_server_credentials(
        [(issued.private_key_pem.bytes(), chain)], PEM if ask_client else None, ask_client
    )


@pytest.fixture
def free_port() -> Iterator[int]:
    """Return a port that refuses connections: it is bound, and nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def http_port() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def closing_port() -> Iterator[int]:
    """Return a port whose connections are accepted and closed, as a proxy without a server behind it does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def close_all() -> None:
            while True:
                try:
                    listening.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=close_all, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture(params=[b"\x28", b"\x70"], ids=["handshake_failure", "unrecognized_name"])
def refusing_tls_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return a port of TLS that closes other connections, and ends each handshake with an alert."""
    alert = b"\x15\x03\x03\0\2\2" + request.param

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):
                if self.request.recv(65536).startswith(b"\x16"):
                    self.request.sendall(alert)
                    self.request.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls that no server has ever answered give up sooner than after three seconds, but look at it in peace."""
    monkeypatch.setattr("xuanzang.client._reliability.first_contact._LIMIT_SECONDS", 0.3)
    monkeypatch.setattr("xuanzang.client._calls.diagnosis._SECONDS", 10.0)


def refusal(client_type: type[Client], address: Any, tls: TLSConfig | None = None) -> str:
    """Call a server in vain, and return the message."""
    with pytest.raises(ServerUnavailableError) as raised:
        client_type(address, tls=tls).translate_one("a")
    return raised.value.message


@pytest.mark.parametrize(
    ("server", "tls", "message"),
    [
        (credentials(), None, "{at} speaks TLS, and this client does not"),
        (credentials(ask_client=True), None, "{at} speaks TLS, and this client does not"),
        (None, TRUSTING, "{at} does not speak TLS"),
        (credentials(ask_client=True), TRUSTING, "wants a client certificate: tls.certificate_chain"),
        (credentials(), TLSConfig(root_certificates=trustme.CA().cert_pem.bytes()), "tls.root_certificates (--tls-ca)"),
        (credentials(), replace(TRUSTING, server_name="other.example"), "tls.server_name (--tls-server-name)"),
        (credentials(), TLSConfig(root_certificates=b"no PEM"), "PEM"),
    ],
)
def test_a_client_is_told_what_its_tls_lacks(
    client_type: type[Client], serve: Serve, server: grpc.ServerCredentials | None, tls: TLSConfig | None, message: str
) -> None:
    port = serve(server).address.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost"):
        assert message.format(at=f"127.0.0.1:{port}") in refusal(client_type, f"{host}:{port}", tls)


def test_the_port_of_a_gateway_is_named_as_what_it_is(client_type: type[Client], http_port: int) -> None:
    assert "speaks HTTP/1, not gRPC" in refusal(client_type, f"127.0.0.1:{http_port}")
    assert "does not speak TLS" in refusal(client_type, f"127.0.0.1:{http_port}", TRUSTING)


def test_a_server_that_ends_the_handshake_speaks_tls_all_the_same(
    client_type: type[Client], refusing_tls_port: int
) -> None:
    assert "speaks TLS, and this client does not" in refusal(client_type, f"127.0.0.1:{refusing_tls_port}")
    assert "does not speak TLS" not in refusal(client_type, f"127.0.0.1:{refusing_tls_port}", TRUSTING)


def test_every_address_is_named_with_what_is_wrong_there(
    client_type: type[Client], free_port: int, closing_port: int, serve: Serve
) -> None:
    tls = serve(credentials()).address
    message = refusal(client_type, [f"127.0.0.1:{free_port}", f"127.0.0.1:{closing_port}", tls])
    assert f"127.0.0.1:{free_port} refuses connections" in message
    assert f"127.0.0.1:{closing_port} closes connections at once" in message
    assert f"{tls} speaks TLS" in message


def test_the_command_ends_with_the_reason_and_code_3(run: Run, free_port: int) -> None:
    code, _, error = run("translate", "a", address=f"127.0.0.1:{free_port}")
    assert code == 3
    assert f"no server answers: 127.0.0.1:{free_port} refuses connections" in error


def test_whoever_waits_for_a_server_is_told_the_reason_at_the_timeout(free_port: int) -> None:
    with (
        TranslationClient(f"127.0.0.1:{free_port}", timeout=3, wait_for_server=True) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.list_models)
        with pytest.raises(TimeoutError):
            # Longer than a call that does not wait.
            answer.result(1)
        with pytest.raises(ServerUnavailableError, match="refuses connections"):
            answer.result()


def test_a_name_that_no_host_can_have_is_said() -> None:
    told = pytest.raises(ServerUnavailableError, match="x has no address: it is no name that a host can have")
    with TranslationClient("x" * 64, timeout=20) as client, told:
        client.translate_one("a")


def test_a_certificate_without_its_key_is_refused_and_a_key_is_not_shown() -> None:
    with pytest.raises(ValueError, match="certificate_chain and private_key go together"):
        TLSConfig(certificate_chain=b"x")
    assert "secret" not in repr(TLSConfig(certificate_chain=b"x", private_key=b"secret"))


@pytest.mark.parametrize(
    ("server", "name"), [(credentials(), None), (credentials("translation.example"), "translation.example")]
)
def test_a_server_with_the_right_certificate_is_trusted(
    client_type: type[Client], serve: Serve, server: Any, name: str | None
) -> None:
    client = client_type(serve(server).address, tls=TLSConfig(root_certificates=PEM, server_name=name))
    assert client.translate_one("a").text == "A"


def test_a_certificate_of_another_authority_is_not_trusted(client_type: type[Client], serve: Serve) -> None:
    client = client_type(serve(credentials(by=trustme.CA())).address, tls=TRUSTING)
    with pytest.raises(ServerUnavailableError):
        client.translate_one("a")


def test_the_client_certificate_is_sent_to_a_server_that_requires_one(client_type: type[Client], serve: Serve) -> None:
    address = serve(credentials(ask_client=True)).address
    issued = AUTHORITY.issue_cert("caller.example")
    chain, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    tls = TLSConfig(root_certificates=PEM, certificate_chain=chain, private_key=key)
    assert client_type(address, tls=tls).translate_one("a").text == "A"
    with pytest.raises(ServerUnavailableError):
        client_type(address, tls=TRUSTING).translate_one("a", timeout=3)
