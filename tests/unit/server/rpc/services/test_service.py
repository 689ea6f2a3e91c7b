from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest

from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError
from xuanzang.text.language_detection import DetectedLanguage
from xuanzang.translation.v1 import translation_pb2 as pb

Serve = Any
"""The `serve` fixture."""


async def test_the_deadline_reaches_the_engine_on_the_monotonic_clock(serve: Serve) -> None:
    async with serve() as served:
        before = time.monotonic()
        await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]), timeout=100)
        after = time.monotonic()
        await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
    with_deadline, without = served.engine.asked_for("deadline")
    assert before + 98 < with_deadline <= after + 100
    assert without is None


async def test_a_stream_answers_each_text_when_it_is_done(serve: Serve) -> None:
    async with serve() as served:
        slow = served.engine.hold("slow")
        call = served.stub.StreamTranslateText()
        await call.write(pb.StreamTranslateTextRequest(id="1", content="slow"))
        await call.write(pb.StreamTranslateTextRequest(id="2", content="fast"))
        first = await call.read()
        slow.set()
        second = await call.read()
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
    assert [(answer.id, answer.translation.hypotheses[0].text) for answer in (first, second)] == [
        ("2", "FAST"),
        ("1", "SLOW"),
    ]


async def test_refused_texts_of_streams_are_logged_singly(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def text(content: str, **settings: Any) -> pb.StreamTranslateTextRequest:
        return pb.StreamTranslateTextRequest(id=content, content=content, settings=pb.TranslationSettings(**settings))

    with caplog.at_level(logging.INFO):
        async with serve() as served:
            served.engine.raised["小秘密"] = RuntimeError("broken")
            served.engine.raised["late"] = DeadlineExceededError("over", in_queue=True)
            requests = [
                text("小秘密"),
                text("late"),
                text("option", options=pb.DecodingOptions(beam_size=99)),
                text("model", model="小秘密"),
                text("a"),
            ]
            call = served.stub.StreamTranslateText(iter(requests), metadata=[("x-request-id", "mine")])
            answers = {answer.id: answer async for answer in call}
    assert {key: answer.error.code for key, answer in answers.items()} == {
        "小秘密": 13,
        "late": 4,
        "option": 3,
        "model": 5,
        "a": 0,
    }
    assert "broken" not in answers["小秘密"].error.message
    assert answers["a"].translation.hypotheses[0].text == "A"
    logged: list[Any] = [record for record in caplog.records if record.message == "text"]
    faulty = {record.reason: (record.code, getattr(record, "fields", [])) for record in logged}
    assert faulty == {
        "internal": ("INTERNAL", []),
        "deadline": ("DEADLINE_EXCEEDED", []),
        "fields": ("INVALID_ARGUMENT", ["settings.options.beam_size"]),
        "model": ("NOT_FOUND", []),
    }
    assert {(record.request_id, record.method.rpartition("/")[2]) for record in logged} == {
        ("mine", "StreamTranslateText")
    }
    assert all(record.seconds >= 0 for record in logged)
    assert "小秘密" not in caplog.text


async def test_a_stream_is_read_only_up_to_its_limit_of_texts_in_translation(serve: Serve) -> None:
    async with serve(max_stream_texts=2) as served:
        held = [served.engine.hold(text) for text in "abcd"]
        call = served.stub.StreamTranslateText()
        for text in "abcd":
            await call.write(pb.StreamTranslateTextRequest(id=text, content=text))
        await served.engine.until(served.engine.running, {"a", "b"})
        held[0].set()
        await served.engine.until(served.engine.running, {"b", "c"})
        for event in held:
            event.set()
        await call.done_writing()
        answered = {answer.id async for answer in call}
    assert answered == set("abcd")


@pytest.mark.parametrize("is_stream", [True, False])
async def test_who_hangs_up_causes_no_error(serve: Serve, caplog: pytest.LogCaptureFixture, is_stream: bool) -> None:
    text = "x" * 50_000
    async with serve() as served:
        for _ in range(30):
            if is_stream:
                call = served.stub.StreamTranslateText(iter([pb.StreamTranslateTextRequest(content=text)] * 8))
            else:
                call = served.stub.TranslateTextProgressively(pb.TranslateTextProgressivelyRequest(content=text))
            await call.read()
            call.cancel()
        await served.rpc.join()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_simultaneous_answers_are_written_one_by_one(serve: Serve) -> None:
    async with serve(max_stream_texts=100) as served:
        go = served.engine.hold("same")
        requests = (pb.StreamTranslateTextRequest(id=str(number), content="same") for number in range(300))
        call = served.stub.StreamTranslateText(requests)
        reading = asyncio.ensure_future(_ids(call))
        await served.engine.until(served.engine.running, {"same"})
        go.set()
        assert sorted(await reading, key=int) == [str(number) for number in range(300)]


async def test_an_open_stream_gets_its_answers_and_then_unavailable_at_the_close(served: Any) -> None:
    held = served.engine.hold("a")
    call = served.stub.StreamTranslateText()
    await call.write(pb.StreamTranslateTextRequest(id="1", content="a"))
    await served.engine.until(served.engine.running, {"a"})
    await served.rpc.close()
    held.set()
    answer = await call.read()
    assert answer.translation.hypotheses[0].text == "A"
    assert await call.code() == grpc.StatusCode.UNAVAILABLE
    await served.rpc.join()


async def test_languages_are_detected_for_each_text_or_the_call_is_unimplemented(serve: Serve) -> None:
    async with serve() as served:
        request = pb.DetectLanguageRequest(contents=["a", "b"])
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await served.stub.DetectLanguage(request)
        assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED
        served.engine.detected = [DetectedLanguage(code="de", confidence=0.75)]
        response = await served.stub.DetectLanguage(request)
        with pytest.raises(grpc.aio.AioRpcError, match="1 to 1024 elements, has 1025"):
            await served.stub.DetectLanguage(pb.DetectLanguageRequest(contents=["a"] * 1025))
    german = pb.LanguageDetection(languages=[pb.DetectedLanguage(language_code="de", confidence=0.75)])
    assert response == pb.DetectLanguageResponse(detections=[german, german])


async def test_texts_that_a_stopping_engine_refuses_are_left_to_another_server(served: Any) -> None:
    served.engine.raised["late"] = DrainingError("the server is stopping")
    call = served.stub.StreamTranslateText()
    for text in ("early", "late"):
        await call.write(pb.StreamTranslateTextRequest(id=text, content=text))
    await call.done_writing()
    assert [answer.id async for answer in answered(call)] == ["early"]
    assert await call.code() is grpc.StatusCode.UNAVAILABLE


async def answered(call: Any) -> AsyncIterator[pb.StreamTranslateTextResponse]:
    """Yield the answers of a stream until its end, whatever its status."""
    with suppress(grpc.aio.AioRpcError):
        async for answer in call:
            yield answer


async def test_models_are_listed_with_their_defaults(serve: Serve) -> None:
    async with serve() as served:
        [model] = (await served.stub.ListModels(pb.ListModelsRequest())).models
    assert (model.name, model.version, model.is_default) == ("tiny", "1", True)
    assert model.default_options.beam_size == 4
    assert not model.default_options.HasField("max_target_length")
    assert (model.max_source_length, model.max_target_length) == (128, 256)


async def _ids(call: Any) -> list[str]:
    return [answer.id async for answer in call]
