"""Google's client of version 2, unmodified, and requests as programs write them by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateways import RunningGateway
from stand_in_server import StandIn

translate_v2 = pytest.importorskip("google.cloud.translate_v2", reason="needs the extra `google`")
credentials = pytest.importorskip("google.auth.credentials", reason="needs the extra `google`")
exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")


@pytest.fixture
def client(gateway: RunningGateway) -> Any:
    anonymous = credentials.AnonymousCredentials()
    return translate_v2.Client(credentials=anonymous, client_options={"api_endpoint": gateway.url})


async def test_the_client_translates_detects_and_lists(client: Any, server: StandIn) -> None:
    server.sources, server.targets, server.detected = ("zh", "en"), ("en", "zh"), {"hello": "en"}
    one = await asyncio.to_thread(client.translate, "a", target_language="en")
    assert (one["translatedText"], one["detectedSourceLanguage"], one["input"]) == ("A", "zh", "a")
    several = await asyncio.to_thread(client.translate, ["a", "b"], target_language="en", source_language="zh")
    assert [each["translatedText"] for each in several] == ["A", "B"]
    found = await asyncio.to_thread(client.detect_language, ["hello"])
    assert [each["language"] for each in found] == ["en"]
    listed = await asyncio.to_thread(client.get_languages, "de")
    assert {"language": "en", "name": "Englisch"} in listed


async def test_faults_are_googles(client: Any) -> None:
    with pytest.raises(exceptions.BadRequest, match="format"):
        await asyncio.to_thread(client.translate, "a", target_language="en", format_="pdf")


async def test_texts_may_stand_in_the_address(gateway: RunningGateway) -> None:
    root = "/language/translate/v2"
    answer = await gateway.get(f"{root}?key=any&q=a&q=b&target=en&format=text")
    assert [each["translatedText"] for each in answer.json["data"]["translations"]] == ["A", "B"]
    missing = await gateway.get(f"{root}?key=any&target=en")
    assert (missing.status, missing.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
