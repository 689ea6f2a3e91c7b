"""The gateway's own API against a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from gateways import RunningGateway, running_gateway
from tests.integration.conftest import shared

from xuanzang.client import AsyncTranslationClient

TEXTS = ["我有一只猫。", "他们有三只狗。老师有两只马。"]
PAIR: dict[str, Any] = {"source_language": "zh", "target_language": "en"}
LONG = {"beam_size": 16, "min_target_length": 60, "max_target_length": 60}


@shared
async def gateway(running: Any) -> AsyncIterator[RunningGateway]:
    async with running_gateway(running.address, max_texts=100) as started:
        yield started


def events(body: bytes) -> list[tuple[str, Any]]:
    """Read server-sent events."""
    blocks = [block.split("\n") for block in body.decode().split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


async def test_texts_are_translated_as_the_sdk_translates_them(
    gateway: RunningGateway, client: AsyncTranslationClient
) -> None:
    options: Any = {"beam_size": 3, "num_hypotheses": 2, "return_scores": True}
    expected = await client.translate(TEXTS[:1], **PAIR, **options)
    answer = await gateway.post("/v1/translate", json={"texts": TEXTS[:1], **PAIR, "options": options})
    assert answer.status == 200
    (translation,) = answer.json["translations"]
    assert [(each["text"], each["score"]) for each in translation["hypotheses"]] == [
        (each.text, each.score) for each in expected[0].hypotheses
    ]
    assert (translation["model"], translation["model_version"]) == ("tiny", "1")


async def test_languages_are_detected_where_none_is_given(gateway: RunningGateway) -> None:
    answer = await gateway.post("/v1/translate", json={"texts": TEXTS, "target_language": "en"})
    assert [each["source_language"] for each in answer.json["translations"]] == ["zh", "zh"]
    assert all(each["detection_confidence"] > 0.5 for each in answer.json["translations"])
    found = await gateway.post("/v1/detect", json={"texts": [TEXTS[1], "42"]})
    likeliest = [some[0]["language"] if some else None for some in found.json["detections"]]
    assert likeliest in (["zh", None], ["zh-Hans", None])


async def test_a_stream_has_parts_and_then_the_whole(gateway: RunningGateway) -> None:
    whole = await gateway.post("/v1/translate", json={"texts": TEXTS[1:], **PAIR})
    answer = await gateway.post("/v1/translate/stream", json={"text": TEXTS[1], **PAIR})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, (last, translation) = events(answer.body)
    assert {name for name, _ in parts} == {"part"}
    assert last == "translation"
    assert "".join(part["text_delta"] for _, part in parts) == translation["text"]
    assert translation["text"] == whole.json["translations"][0]["text"]
    # One that cannot begin has the status of its error.
    refused = await gateway.post("/v1/translate/stream", json={"text": "猫", **PAIR, "target_language": "fr"})
    assert (refused.status, refused.headers["content-type"]) == (404, "application/problem+json")


async def test_what_is_asked_for_about_a_translation_is_in_the_answer(
    gateway: RunningGateway, client: AsyncTranslationClient
) -> None:
    from dataclasses import asdict

    from xuanzang.gateway.apis.json_api.messages import TranslateResponse

    glossary = {"猫": "cat"}
    asked: Any = {"token_details": True, "return_scores": True}
    (expected,) = await client.translate(TEXTS[:1], **PAIR, **asked, glossary=glossary, return_provenance=True)
    body = {"texts": TEXTS[:1], **PAIR, "options": asked, "glossary": glossary, "return_provenance": True}
    answer = await gateway.post("/v1/translate", json=body)
    assert TranslateResponse.model_validate(answer.json).model_dump() == answer.json
    (translation,) = answer.json["translations"]
    (hypothesis,) = translation["hypotheses"]
    assert hypothesis["tokens"] == [asdict(each) for each in expected.hypotheses[0].tokens]
    assert hypothesis["token_count"] == len(hypothesis["tokens"])
    assert [each["source"] for each in translation["glossary_matches"]] == ["猫"]
    assert expected.provenance
    assert translation["provenance"]["manifest_sha256"] == expected.provenance.manifest_sha256
    assert translation["provenance"]["options"] == asdict(expected.provenance.options)


async def test_a_problem_names_the_faulty_field(gateway: RunningGateway) -> None:
    wrong: Any = {
        "texts": {"texts": ["猫"] * 101},
        "texts[1]": {"texts": ["猫", 1]},
        "colour": {"colour": "red"},
        "options.sampling.top_p": {"options": {"sampling": {"top_p": 7}}},
    }
    for field, change in wrong.items():
        answer = await gateway.post("/v1/translate", json={"texts": ["猫"], **PAIR} | change)
        assert (answer.status, answer.json["status"]) == (400, 400)
        assert [each["field"] for each in answer.json["violations"]] == [field]
        assert answer.json.keys() >= {"type", "title", "detail"}


async def test_the_description_covers_every_call_and_option(gateway: RunningGateway) -> None:
    from xuanzang.client import TranslateOptions
    from xuanzang.gateway.apis.json_api.messages import Options

    document = (await gateway.get("/openapi.json")).json
    assert document["openapi"] == "3.1.0"
    for path, operations in document["paths"].items():
        for method in operations:
            answer = await (gateway.get(path) if method == "get" else gateway.post(path, data=b"{}"))
            assert answer.status in (200, 400), path
    references = {each for each in json.dumps(document).split('"') if each.startswith("#/components/schemas/")}
    assert {each.rpartition("/")[2] for each in references} <= document["components"]["schemas"].keys()
    assert set(Options.model_fields) <= TranslateOptions.__optional_keys__


async def test_a_caller_that_hangs_up_ends_the_work(gateway: RunningGateway, running: Any) -> None:
    before = await running.scrape()
    body = json.dumps({"texts": TEXTS * 40, **PAIR, "options": LONG}).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    await running.until_metric("nmt_requests_running")
    writer.close()
    await writer.wait_closed()
    await running.server.rpc.join()
    handled = (await running.scrape()).since(before)
    assert handled.value("grpc_server_handled_total", grpc_code="CANCELLED", grpc_method="TranslateText") == 1
