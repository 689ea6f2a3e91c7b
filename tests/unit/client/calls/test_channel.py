from __future__ import annotations

from typing import Any

import grpc
import pytest
import trustme
from tests.unit.client.conftest import Client, Serve

from xuanzang import client as sdk

AUTHORITY = trustme.CA()
PEM = AUTHORITY.cert_pem.bytes()
TRUSTING = sdk.TLSConfig(root_certificates=PEM)


def credentials(name: str = "127.0.0.1", by: trustme.CA = AUTHORITY, *, ask_client: bool = False) -> Any:
    issued = by.issue_cert(name)
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    pair = [(issued.private_key_pem.bytes(), chain)]
    return grpc.ssl_server_credentials(pair, PEM if ask_client else None, require_client_auth=ask_client)


def test_a_certificate_without_its_key_is_refused_and_a_key_is_not_shown() -> None:
    with pytest.raises(ValueError, match="certificate_chain and private_key go together"):
        sdk.TLSConfig(certificate_chain=b"x")
    assert "secret" not in repr(sdk.TLSConfig(certificate_chain=b"x", private_key=b"secret"))


@pytest.mark.parametrize(
    ("server", "name"), [(credentials(), None), (credentials("translation.example"), "translation.example")]
)
def test_a_server_with_the_right_certificate_is_trusted(
    client_type: type[Client], serve: Serve, server: Any, name: str | None
) -> None:
    client = client_type(serve(server).address, tls=sdk.TLSConfig(root_certificates=PEM, server_name=name))
    assert client.translate_one("a").text == "A"


def test_a_certificate_of_another_authority_is_not_trusted(client_type: type[Client], serve: Serve) -> None:
    client = client_type(serve(credentials(by=trustme.CA())).address, tls=TRUSTING)
    with pytest.raises(sdk.ServerUnavailableError):
        client.translate_one("a")


def test_the_client_certificate_is_sent_to_a_server_that_requires_one(client_type: type[Client], serve: Serve) -> None:
    address = serve(credentials(ask_client=True)).address
    issued = AUTHORITY.issue_cert("caller.example")
    chain, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    tls = sdk.TLSConfig(root_certificates=PEM, certificate_chain=chain, private_key=key)
    assert client_type(address, tls=tls).translate_one("a").text == "A"
    with pytest.raises(sdk.ServerUnavailableError):
        client_type(address, tls=TRUSTING).translate_one("a", timeout=0.5)
