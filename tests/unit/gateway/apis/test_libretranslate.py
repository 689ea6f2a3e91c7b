"""LibreTranslate's tests of its API, as its package has them, and what programs that use it ask for without keys."""

from __future__ import annotations

from typing import Any

import pytest
from gateways import Answer, RunningGateway, running_gateway
from stand_in_server import KEY, StandIn, standing_in


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(sources=("en", "es"), targets=("en", "es", "zh-Hant"), detected={"Hello": "en", "World": "en"})


async def test_what_is_asked_for_is_not_sent_and_detection_is_not_asked_for(gateway: RunningGateway) -> None:
    for path in ("/languages", "/frontend/settings", "/spec", "/health"):
        assert ((await gateway.get(path)).status, (await gateway.post(path)).status) == (200, 405)
    assert (await gateway.get("/detect")).status == 405


async def test_traditional_chinese_has_its_old_code(gateway: RunningGateway, server: StandIn) -> None:
    await gateway.post("/translate", json={"q": "Hello", "source": "en", "target": "zt"})
    assert server.asked[-1].settings.target_language_code == "zh-Hant"


@pytest.mark.parametrize(("settings", "status"), [({"listing_key": KEY}, 200), ({}, 403)])
async def test_languages_are_listed_without_a_key_if_the_gateway_has_one(settings: Any, status: int) -> None:
    async def listed(gateway: RunningGateway, **headers: str) -> Answer:
        return await gateway.get("/languages", **headers)

    server = StandIn(needs_key=True)
    async with standing_in(server) as address, running_gateway(address, anonymous=False, **settings) as gateway:
        assert (await listed(gateway)).status == status
        assert (await gateway.get("/frontend/settings")).status == status
        assert (await listed(gateway, authorization=f"Bearer {KEY}")).status == 200
        assert (await gateway.post("/translate", json={"q": "a", "source": "zh", "target": "en"})).status == 403


async def test_json_that_is_sent_as_text_is_read(gateway: RunningGateway) -> None:
    data = b'{"q": "Hello", "source": "en", "target": "es"}'
    answer = await gateway.post("/translate", data=data, content_type="text/plain;charset=UTF-8")
    assert answer.json == {"translatedText": "HELLO"}
    array = await gateway.post("/translate", data=b"[]", content_type="application/json")
    assert array.json == {"error": "the body must be a JSON object"}
