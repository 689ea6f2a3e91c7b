from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import trustme

from xuanzang import client as sdk

if TYPE_CHECKING:
    from tests.unit.client.conftest import Client, Script

Serve = Callable[..., "Script"]


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ValueError, match="certificate_chain and private_key go together"):
        sdk.TLSConfig(certificate_chain=b"x")


def test_a_private_key_is_not_shown() -> None:
    assert "secret" not in repr(sdk.TLSConfig(certificate_chain=b"x", private_key=b"secret"))


@pytest.fixture(scope="module")
def authority() -> Any:
    return trustme.CA()


def pem_of(authority: trustme.CA) -> Any:
    return authority.cert_pem.bytes()


def server_credentials(authority: trustme.CA, name: str, *, ask_client: Any = False) -> Any:
    issued = authority.issue_cert(name)
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    pair = [(issued.private_key_pem.bytes(), chain)]
    roots = pem_of(authority) if ask_client else None
    return grpc.ssl_server_credentials(pair, root_certificates=roots, require_client_auth=ask_client)


def test_a_server_with_the_right_certificate_is_trusted(
    client_type: type[Client], serve: Serve, authority: trustme.CA
) -> None:
    script = serve(server_credentials(authority, "127.0.0.1"))
    client = client_type(script.address, tls=sdk.TLSConfig(root_certificates=pem_of(authority)))
    assert client.translate_one("a").text == "A"


def test_a_certificate_of_another_authority_is_not_trusted(
    client_type: type[Client], serve: Serve, authority: trustme.CA
) -> None:
    script = serve(server_credentials(trustme.CA(), "127.0.0.1"))
    client = client_type(script.address, tls=sdk.TLSConfig(root_certificates=pem_of(authority)))
    with pytest.raises(sdk.ServerUnavailableError):
        client.translate_one("a")


def test_server_name_allows_a_certificate_for_another_name(
    client_type: type[Client], serve: Serve, authority: trustme.CA
) -> None:
    script = serve(server_credentials(authority, "translation.example"))
    tls = sdk.TLSConfig(root_certificates=pem_of(authority), server_name="translation.example")
    assert client_type(script.address, tls=tls).translate_one("a").text == "A"


def test_the_client_certificate_is_sent_to_a_server_that_requires_one(
    client_type: type[Client], serve: Serve, authority: trustme.CA
) -> None:
    script = serve(server_credentials(authority, "127.0.0.1", ask_client=True))
    issued = authority.issue_cert("caller.example")
    tls = sdk.TLSConfig(
        root_certificates=pem_of(authority),
        certificate_chain=issued.cert_chain_pems[0].bytes(),
        private_key=issued.private_key_pem.bytes(),
    )
    assert client_type(script.address, tls=tls).translate_one("a").text == "A"
    refused = client_type(script.address, tls=sdk.TLSConfig(root_certificates=pem_of(authority)))
    with pytest.raises(sdk.ServerUnavailableError):
        refused.translate_one("a", timeout=1)
