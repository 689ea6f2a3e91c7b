"""How long a request is worked on: until its deadline, its caller's end, or the server's; and what ends with it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from gateways import gateway_process, running_gateway
from stand_in_server import StandIn, standing_in
from typing_extensions import override

from xuanzang.gateway.entry.patience import HungUpError, deadline_in, within
from xuanzang.gateway.errors import RefusedError
from xuanzang.translation.v1 import translation_pb2 as pb


class Stays:
    """Health of a server that is never lost."""

    async def lost(self) -> None:
        await asyncio.Event().wait()


class Lost:
    """Health of a server that is lost at once."""

    async def lost(self) -> None:
        await asyncio.sleep(0)


@dataclass
class Work:
    """Work that ends only when it is cancelled, and then takes its time."""

    is_over: bool = False

    async def endless(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.is_over = True


async def at_once() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("given", "status"),
    [({"deadline": 0.0, "health": Stays()}, 504), ({"deadline": math.inf, "health": Lost()}, 503)],
)
async def test_what_is_given_up_is_over_before_it_is_refused(given: Any, status: int) -> None:
    work = Work()
    with pytest.raises(RefusedError) as refused:
        await within(work.endless(), **given)
    assert (refused.value.fault.status, work.is_over) == (status, True)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_nothing_is_answered_to_who_has_gone() -> None:
    work = Work()
    with pytest.raises(HungUpError):
        await within(work.endless(), deadline=deadline_in(60), health=Stays(), hung_up=at_once)  # type: ignore[arg-type]
    assert work.is_over


LINGER_SECONDS = 0.6


@dataclass
class Slow(StandIn):
    """A server that answers texts in one language never, and refuses another at once."""

    waits: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a call is never answered."""
    is_left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once that call has ended."""
    sources: Sequence[str] = ("zh", "de")
    deadlines: list[float] = field(default_factory=list)

    @override
    async def TranslateText(self, request: pb.TranslateTextRequest, context: Any) -> pb.TranslateTextResponse:
        self.deadlines.append(context.time_remaining())
        if request.contents[0] == "refused":
            # The other call is under way then.
            await self.waits.wait()
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused")
        if request.contents[0] == "lingering" and len(self.deadlines) == 1:
            await asyncio.sleep(LINGER_SECONDS)
        if request.contents[0] == "slow":
            self.waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.is_left.set()
        return await super().TranslateText(request, context)


async def test_a_refused_text_ends_the_calls_for_its_siblings() -> None:
    server = Slow(detected={"slow": "zh", "refused": "de"})
    async with standing_in(server) as address, running_gateway(address, anonymous=True) as gateway:
        answer = await gateway.post("/v1/translate", json={"texts": ["slow", "refused"], "target_language": "en"})
        assert answer.status == 400
        # The server learns of it a little later.
        await server.is_left.wait()


async def test_what_one_call_of_a_request_takes_the_next_does_not_have() -> None:
    server = Slow()
    # gRPC tells times of more than 10 seconds to a tenth.
    async with standing_in(server) as address, running_gateway(address, request_timeout_seconds=9) as gateway:
        answer = await gateway.post("/translate?api-version=3.0&from=zh&to=en&to=en", json=[{"Text": "lingering"}])
    assert answer.status == 200
    first, second = server.deadlines
    assert second < first - 0.9 * LINGER_SECONDS


async def test_without_a_server_each_api_says_so_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xuanzang.client._reliability.first_contact._LIMIT_SECONDS", 0.1)
    bodies = {
        "/v1/translate": {"texts": ["a"], "target_language": "en"},
        "/v2/translate": {"text": ["a"], "target_lang": "EN"},
        "/translate": {"q": "a", "source": "zh", "target": "en"},
    }
    async with running_gateway("127.0.0.1:1", anonymous=True) as gateway:
        for path, body in bodies.items():
            answer = await gateway.post(path, json=body)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "the translation server does not answer" in answer.body.decode()


LOGGED: list[tuple[str, Any, dict[str, str]]] = [
    ("/v1/translate", {"texts": ["猫"], "target_language": "en"}, {"api": "json", "model": "tiny/1"}),
    ("/translate", {"q": "猫", "source": "zh", "target": "en"}, {"api": "libretranslate", "model": "tiny/1"}),
    ("/kiss", {"text": "猫", "from": "zh", "to": "xx"}, {"api": "kiss_translator", "reason": "server_not_found"}),
    ("/v1/translate", {"secret": 1}, {"api": "json", "reason": "bad_request"}),
    ("/v2/translate", {"text": "x" * 3000}, {"api": "deepl", "reason": "request_entity_too_large"}),
    ("/v1/chat/completions", {}, {"api": "openai", "reason": "bad_request"}),
]


async def test_a_log_line_says_which_api_which_model_and_why() -> None:
    async with (
        standing_in(StandIn()) as address,
        gateway_process(f"--server={address}", "--max-body-bytes=2048") as (process, gateway),
    ):
        assert process.stderr is not None
        for path, body, facts in LOGGED:
            answer = await gateway.post(path, json=body)
            line: dict[str, Any] = {}
            while line.get("event") != "request":
                written = await process.stderr.readline()
                # gRPC's own lines are no JSON.
                line = json.loads(written) if written.startswith(b"{") else {}
            assert line["status"] == answer.status
            assert {name: line.get(name) for name in ("api", "model", "reason")} == {
                "model": None,
                "reason": None,
            } | facts
            assert "secret" not in json.dumps(line)
