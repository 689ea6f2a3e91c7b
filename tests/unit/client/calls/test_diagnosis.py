"""Messages about a wrong address, port or TLS settings."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import trustme

from xuanzang.client import ServerUnavailableError, TLSConfig, TranslationClient

if TYPE_CHECKING:
    from tests.unit.client.conftest import Client, Script

Serve = Callable[..., "Script"]
AUTHORITY = trustme.CA()
TRUSTING = TLSConfig(root_certificates=AUTHORITY.cert_pem.bytes())


def credentials(*, ask_client: bool = False) -> grpc.ServerCredentials:
    issued = AUTHORITY.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    roots = AUTHORITY.cert_pem.bytes() if ask_client else None
    return grpc.ssl_server_credentials([(issued.private_key_pem.bytes(), chain)], roots, ask_client)


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


def refusal(client_type: type[Client], address: Any, tls: TLSConfig | None = None) -> str:
    """Call a server in vain, and return the message."""
    with pytest.raises(ServerUnavailableError) as raised:
        client_type(address, tls=tls).translate_one("a")
    return raised.value.message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_without_tls_is_told_that_the_server_has_it(
    client_type: type[Client], serve: Serve, host: str
) -> None:
    for asks in (False, True):
        port = serve(credentials(ask_client=asks)).address.rpartition(":")[2]
        message = refusal(client_type, f"{host}:{port}")
        assert f"127.0.0.1:{port} speaks TLS, and this client does not" in message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_with_tls_is_told_that_the_server_has_none(client_type: type[Client], serve: Serve, host: str) -> None:
    port = serve().address.rpartition(":")[2]
    assert f"127.0.0.1:{port} does not speak TLS" in refusal(client_type, f"{host}:{port}", TRUSTING)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_is_told_that_it_must_show_a_certificate(client_type: type[Client], serve: Serve, host: str) -> None:
    port = serve(credentials(ask_client=True)).address.rpartition(":")[2]
    assert "wants a client certificate: tls.certificate_chain" in refusal(client_type, f"{host}:{port}", TRUSTING)


def test_a_certificate_of_another_authority_is_named(client_type: type[Client], serve: Serve) -> None:
    port = serve(credentials()).address.rpartition(":")[2]
    other = TLSConfig(root_certificates=trustme.CA().cert_pem.bytes())
    assert "tls.root_certificates (--tls-ca)" in refusal(client_type, f"localhost:{port}", other)
    name = TLSConfig(root_certificates=TRUSTING.root_certificates, server_name="elsewhere.example.com")
    assert "tls.server_name (--tls-server-name)" in refusal(client_type, f"localhost:{port}", name)
    broken = TLSConfig(root_certificates=b"no PEM")
    assert "PEM" in refusal(client_type, f"localhost:{port}", broken)


def test_the_port_of_a_gateway_is_named_as_what_it_is(client_type: type[Client], http_port: int) -> None:
    assert "speaks HTTP/1, not gRPC" in refusal(client_type, f"127.0.0.1:{http_port}")
    assert "does not speak TLS" in refusal(client_type, f"127.0.0.1:{http_port}", TRUSTING)


def test_every_address_is_named_with_what_is_wrong_there(
    client_type: type[Client], free_port: int, closing_port: int, serve: Serve
) -> None:
    tls = serve(credentials()).address
    message = refusal(client_type, [f"127.0.0.1:{free_port}", f"127.0.0.1:{closing_port}", tls])
    assert f"127.0.0.1:{free_port} refuses connections" in message
    assert f"127.0.0.1:{closing_port} closes connections at once" in message
    assert f"{tls} speaks TLS" in message


def test_a_wrong_port_is_told_long_before_the_timeout(run: Any, free_port: int) -> None:
    began = time.monotonic()
    code, _, error = run("translate", "a", address=f"127.0.0.1:{free_port}")
    # Half of the timeout, which is a minute.
    assert time.monotonic() - began < 30
    assert code == 3
    assert f"no server answers: 127.0.0.1:{free_port} refuses connections" in error


def test_whoever_waits_for_a_server_is_told_the_reason_at_the_timeout(free_port: int) -> None:
    with (
        TranslationClient(f"127.0.0.1:{free_port}", timeout=8, wait_for_server=True) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.list_models)
        with pytest.raises(TimeoutError):
            # Longer than a call that does not wait.
            answer.result(5)
        with pytest.raises(ServerUnavailableError, match="refuses connections"):
            answer.result()


def test_a_name_that_no_host_can_have_is_said() -> None:
    told = pytest.raises(ServerUnavailableError, match="x has no address: it is no name that a host can have")
    with TranslationClient("x" * 64, timeout=20) as client, told:
        client.translate_one("a")
