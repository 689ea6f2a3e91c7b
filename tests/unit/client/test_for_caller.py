from __future__ import annotations

from typing import Any

import grpc
import pytest
from tests.unit.client.conftest import Script, echo, finished

from xuanzang import client as sdk

BOTH = pytest.mark.parametrize("kind", [sdk.TranslationClient, sdk.AsyncTranslationClient])


def test_calls_for_a_caller_carry_its_key_name_and_request_id(script: Script) -> None:
    with sdk.TranslationClient(script.address, api_key="own", client_id="me") as client:
        caller = client.for_caller(api_key="theirs", client_id="them", request_id="id-1")
        caller.translate_one("a")
        caller.list_models()
        list(caller.translate_progressively("a"))
        client.translate_one("a")
    *theirs, own = script.metadata
    expected = {"authorization": "Bearer theirs", "x-client-id": "them", "x-request-id": "id-1"}
    assert [each.items() >= expected.items() for each in theirs] == [True] * 3
    assert (own["authorization"], own["x-client-id"]) == ("Bearer own", "me")
    assert own["x-request-id"] != "id-1"


async def test_the_asynchronous_client_calls_for_others_over_the_same_connection(script: Script) -> None:
    async with sdk.AsyncTranslationClient(script.address, api_key="") as client:
        caller = client.for_caller(client_id="them", request_id="id-1")
        await caller.translate_one("a")
        assert caller._calls._channels is client._calls._channels
    assert script.metadata[0].items() >= {"x-client-id": "them", "x-request-id": "id-1"}.items()
    assert "authorization" not in script.metadata[0]
    with pytest.raises(RuntimeError, match="the client is closed"):
        await caller.translate_one("a")


async def test_what_a_server_refuses_one_caller_holds_back_no_other(script: Script) -> None:
    def refuse_greedy(request: Any, context: Any) -> Any:
        if dict(context.invocation_metadata())["x-client-id"] == "greedy":
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "3600000"),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")
        return echo(request, context)

    script.on_translate = refuse_greedy
    async with sdk.AsyncTranslationClient(script.address, api_key="") as client:
        for _ in range(30):
            with pytest.raises(sdk.OverloadedError):
                await client.for_caller(client_id="greedy").translate_one("a", timeout=60)
        assert (await client.for_caller(client_id="modest").translate_one("a", timeout=60)).text == "A"
        for name in range(2000):
            client.for_caller(client_id=str(name))
        assert len(client._calls.shared._callers) == 1024
    # The refused one is not even sent again.
    assert [each["x-client-id"] for each in script.metadata] == ["greedy", "modest"]


def test_a_caller_without_a_key_gets_none_from_the_environment(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XUANZANG_API_KEY", "of-the-operator")
    with sdk.TranslationClient(script.address) as client:
        client.for_caller().translate_one("a")
    assert "authorization" not in script.metadata[0]


@BOTH
async def test_what_cannot_be_metadata_is_refused(kind: Any) -> None:
    client = kind("localhost:1", api_key="", uses_proxy=False)
    for name, value in (("api_key", "two words"), ("client_id", ""), ("request_id", "a b"), ("request_id", "x" * 129)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            client.for_caller(**{name: value})
    await finished(client.close())


@BOTH
async def test_a_callers_key_crosses_neither_networks_nor_proxies_in_plain_text(kind: Any) -> None:
    remote, proxied = kind("10.0.0.1:1", api_key=""), kind("localhost:1", api_key="")
    with pytest.raises(ValueError, match="in plain text: use TLS"):
        remote.for_caller(api_key="theirs")
    with pytest.raises(ValueError, match="through a proxy in plain text"):
        proxied.for_caller(api_key="theirs")
    for client in (
        kind("10.0.0.1:1", api_key="", tls=sdk.TLSConfig()),
        kind("10.0.0.1:1", api_key="", allow_insecure_key=True, uses_proxy=False),
    ):
        assert isinstance(client.for_caller(api_key="theirs"), kind)
        await finished(client.close())
    await finished(remote.close())
    await finished(proxied.close())
