"""Explanations by a real server: over gRPC, through the SDK and the command, and as JSON of the gateway."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import grpc
import pytest
from gateways import running_gateway

from xuanzang.client import (
    AsyncTranslationClient,
    CandidateFate,
    Explanation,
    InvalidRequestError,
    StatusCode,
    TranslationClient,
    TranslationError,
)
from xuanzang.gateway.apis.json_api.messages import ExplainResponse
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

TEXT = "我有一只猫。"
PAIR: dict[str, Any] = {"source_language": "zh", "target_language": "en"}
OPTIONS: dict[str, Any] = {"beam_size": 3, "num_hypotheses": 2, "length_penalty": 0.7}


async def test_the_sdk_explains_the_translation_that_it_returns(client: AsyncTranslationClient) -> None:
    expected = await client.translate_one(TEXT, **PAIR, **OPTIONS, return_scores=True, token_details=True)
    explained = await client.explain(TEXT, **PAIR, **OPTIONS)
    assert [(each.text, each.score) for each in explained.translation.hypotheses] == [
        (each.text, each.score) for each in expected.hypotheses
    ]
    assert [(token.text, token.score) for token in explained.target_tokens] == [
        (token.text, token.score) for token in expected.hypotheses[0].tokens
    ]
    assert not explained.translation.hypotheses[0].tokens
    assert [each.id for each in explained.path] == [token.id for token in explained.target_tokens]
    assert explained.path[-1].fate is CandidateFate.FINISHED


async def test_both_clients_and_the_command_say_the_same(running: Any, client: AsyncTranslationClient) -> None:
    explained = await client.explain(TEXT, **PAIR, **OPTIONS)

    def blocking() -> Explanation:
        with TranslationClient(running.address) as other:
            return other.explain(TEXT, **PAIR, **OPTIONS)

    assert await asyncio.to_thread(blocking) == explained
    flags = ("--beam-size=3", "--num-hypotheses=2", "--length-penalty=0.7", "--json")
    assert json.loads(await command(running.address, TEXT, *flags)) == json.loads(json.dumps(explained.as_dict()))


async def test_the_gateway_answers_as_its_description_says(running: Any, client: AsyncTranslationClient) -> None:
    wanted: dict[str, Any] = {"attention_kinds": ["cross", "decoder"], "attention_layers": [1], "attention_heads": True}
    explained = await client.explain(TEXT, **PAIR, **OPTIONS, **wanted)
    async with running_gateway(running.address) as gateway:
        asked = {"text": TEXT, **PAIR, "options": OPTIONS, **wanted}
        answer = await gateway.post("/v1/explain", json=asked)
        fault = await gateway.post("/v1/explain", json={"text": "猫。狗。", "target_language": "en"})
        described = (await gateway.get("/openapi.json")).json
    assert answer.status == 200
    assert {(each.kind.name, each.layer) for each in explained.attention} == {("CROSS", 1), ("DECODER", 1)}
    ExplainResponse.model_validate_json(answer.body)
    assert answer.json == json.loads(json.dumps(explained.as_dict() | {"source_language": "zh"}))
    assert fault.status == 400
    assert fault.json["violations"][0] == {"field": "text", "description": "must be one sentence, has 2"}
    assert "/v1/explain" in described["paths"]
    assert set(described["components"]["schemas"]["ExplainResponse"]["required"]) == set(answer.json)


FAULTY: list[tuple[dict[str, Any], str]] = [
    ({"content": "  "}, "content"),
    ({"content": "猫。狗。"}, "content"),
    ({"content": "猫" * 300, "settings": {"options": {"refuse_long_sentences": True}}}, "content"),
    ({"settings": {"options": {"beam_size": 17}}}, "settings.options.beam_size"),
    ({"settings": {"options": {"sampling": {}}}}, "settings.options.sampling"),
    ({"settings": {"options": {"partial_on_deadline": True}}}, "settings.options.partial_on_deadline"),
    ({"settings": {"return_alternatives": True}}, "settings.return_alternatives"),
    ({"settings": {"return_provenance": True}}, "settings.return_provenance"),
    ({"settings": {"return_quality": True}}, "settings.return_quality"),
    ({"settings": {"content_format": 2}}, "settings.content_format"),
    ({"settings": {"content_format": 9}}, "settings.content_format"),
    ({"settings": {"glossary": "none"}}, "settings.glossary"),
    ({"settings": {"glossary_entries": [{"source": "猫", "targets": ["cat"]}]}}, "settings.glossary_entries"),
    ({"settings": {"protected_patterns": [1]}}, "settings.protected_patterns"),
    ({"attention_kinds": [0]}, "attention_kinds[0]"),
    ({"attention_kinds": [9]}, "attention_kinds[0]"),
    ({"attention_kinds": [1, 1]}, "attention_kinds"),
    ({"attention_layers": [99]}, "attention_layers[0]"),
    ({"attention_layers": [0, 0]}, "attention_layers"),
    ({"attention_layers": [*range(65)]}, "attention_layers"),
    ({"attention_layers": [-1]}, "attention_layers[0]"),
]


async def test_a_faulty_request_is_refused_with_its_field(running: Any, client: AsyncTranslationClient) -> None:
    async with grpc.aio.insecure_channel(running.address) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        for change, field in FAULTY:
            request = pb.ExplainTranslationRequest(**{"content": TEXT, **change})
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await stub.ExplainTranslation(request)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert (raised.value.details() or "").startswith(f"{field}:"), change
    assert (await client.translate_one(TEXT)).text


async def test_limits_of_the_server_bound_what_is_explained(start_server: Any) -> None:
    limits = {"max_explained_tokens": 12, "max_explained_weights": 200}
    async with start_server(**limits) as running, AsyncTranslationClient(running.address) as client:
        with pytest.raises(InvalidRequestError, match="content: must have at most 12 source tokens"):
            await client.explain("我们有三只猫，他们有三只狗，老师有两只马。")
        with pytest.raises(InvalidRequestError, match=r"attention_layers: .* at most 200") as raised:
            await client.explain(TEXT, attention_kinds=["encoder"], attention_heads=True)
        assert raised.value.violations[0].field == "attention_layers"
        explained = await client.explain(TEXT, min_target_length=14, attention_layers=[0])
    assert (len(explained.target_tokens), len(explained.search_steps)) == (12, 12)
    assert explained.omitted_steps >= 3
    assert len(explained.attention[0].weights) == 12


async def test_explanations_can_be_turned_off(start_server: Any) -> None:
    async with start_server(max_explanations=0) as running, AsyncTranslationClient(running.address) as client:
        with pytest.raises(TranslationError, match="--max-explanations is 0") as raised:
            await client.explain(TEXT)
    assert raised.value.code is StatusCode.UNIMPLEMENTED


async def test_explanations_are_counted(running: Any, client: AsyncTranslationClient) -> None:
    before = await running.scrape()
    await client.explain(TEXT)
    with pytest.raises(InvalidRequestError):
        await client.explain("猫。狗。")
    scrape = (await running.scrape()).since(before)
    assert scrape.value("nmt_explanations_total", outcome="answered") == 1
    assert scrape.value("nmt_explanations_total", outcome="failed") == 1
    assert scrape.value("nmt_explanations_total", outcome="refused") == 0
    assert scrape.value("nmt_explanation_duration_seconds_count") == 1


async def command(address: str, *arguments: str) -> str:
    """Run `xuanzang explain` and return what it writes."""
    line = [sys.executable, "-m", "xuanzang.client", "explain", "--address", address, *arguments]
    done = await asyncio.to_thread(subprocess.run, line, capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout
