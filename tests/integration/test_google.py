"""Google's own clients, unmodified, with a real server behind a gateway: their answers are those of TranslateText."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from api_keys import add_key
from gateways import running_gateway
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.client import TranslationClient

exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")
api_key = pytest.importorskip("google.auth.api_key", reason="needs the extra `google`")
translate_v3 = pytest.importorskip("google.cloud.translate_v3", reason="needs the extra `google`")

PARENT = "projects/any"

texts = st.lists(st.text("我有一两只猫狗。，\n <>&a ", max_size=30), min_size=1, max_size=6)


def client_of(channel: grpc.Channel) -> Any:
    transport = translate_v3.TranslationServiceClient.get_transport_class("grpc")
    return translate_v3.TranslationServiceClient(transport=transport(channel=channel))


def translated(client: Any, contents: list[str], **options: Any) -> list[str]:
    request = {"parent": PARENT, "contents": contents, "mime_type": "text/plain"}
    request |= {"source_language_code": "zh", "target_language_code": "en"}
    return [each.translated_text for each in client.translate_text(request=request, **options).translations]


async def test_an_answer_through_a_gateway_equals_that_of_translate_text(running: Any) -> None:
    def compare(address: str, gateway: str) -> None:
        with grpc.insecure_channel(gateway) as channel, TranslationClient(address) as own:
            client = client_of(channel)

            @settings(max_examples=10, deadline=None)
            @given(texts)
            def equal(contents: list[str]) -> None:
                answers = own.translate(contents, source_language="zh", target_language="en")
                assert translated(client, contents) == [answer.text for answer in answers]

            equal()

    async with running_gateway(running.address, grpc_address="127.0.0.1:0") as gateway:
        await asyncio.to_thread(compare, running.address, gateway.grpc_address)


async def test_an_api_key_goes_the_way_that_googles_client_sends_it(start_server: Any, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "holder", "--requests-per-minute=1")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    (tmp_path / "server.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    files = {"tls_certificate": tmp_path / "server.pem", "tls_key": tmp_path / "server.key"}

    def call(address: str, key: str) -> list[str]:
        transport = translate_v3.TranslationServiceClient.get_transport_class("grpc")(
            host=address.replace("127.0.0.1", "localhost"),
            credentials=api_key.Credentials(key),
            ssl_channel_credentials=grpc.ssl_channel_credentials(authority.cert_pem.bytes()),
        )
        with translate_v3.TranslationServiceClient(transport=transport) as client:
            return translated(client, ["我有一只猫。"])

    async with (
        start_server(keys_file=tmp_path / "keys", anonymous=False) as running,
        running_gateway(
            running.address, grpc_address="127.0.0.1:0", anonymous=False, request_timeout_seconds=20, **files
        ) as gateway,
    ):
        with pytest.raises(exceptions.Unauthenticated):
            await asyncio.to_thread(call, gateway.grpc_address, "xz_wrong")
        assert await asyncio.to_thread(call, gateway.grpc_address, key)
        with pytest.raises(exceptions.ResourceExhausted, match="1 request") as over:
            await asyncio.to_thread(call, gateway.grpc_address, key)
        assert any(getattr(detail, "retry_delay", None) for detail in over.value.details)
