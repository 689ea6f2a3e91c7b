from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from tests.unit.client.conftest import Client, Script, aborting, finished

from xuanzang import client as sdk
from xuanzang.translation.v1 import translation_pb2 as pb


def test_the_parts_form_the_text_and_the_last_has_the_translation(client: Client) -> None:
    parts = client.translate_progressively("abc")
    assert [part.text_delta for part in parts] == ["A", "B", "C", ""]
    assert [part.translation is None for part in parts] == [True, True, True, False]
    assert parts[-1].translation is not None
    assert parts[-1].translation.text == "ABC"
    assert (parts[-1].translation.model, parts[-1].translation.model_version) == ("zh-en", "1")


def test_each_part_is_yielded_before_the_next_one_is_sent(script: Script) -> None:
    asked = threading.Semaphore(0)

    def when_asked(request: Any, context: Any) -> Iterator[Any]:
        for letter in "ABC":
            asked.acquire(timeout=20)
            yield pb.TranslateTextProgressivelyResponse(text_delta=letter)
        yield pb.TranslateTextProgressivelyResponse(translation=pb.Translation(hypotheses=[pb.Hypothesis(text="ABC")]))

    script.on_progressive = when_asked
    with sdk.TranslationClient(script.address) as client:
        parts = client.translate_progressively("abc")
        for letter in "ABC":
            asked.release()
            assert next(parts).text_delta == letter
        assert [part.translation is not None for part in parts] == [True]


def test_a_refusal_is_raised_at_the_first_part(client: Client, script: Script) -> None:
    script.on_progressive = aborting(grpc.StatusCode.INVALID_ARGUMENT, "too long")
    with pytest.raises(sdk.InvalidRequestError, match="too long"):
        client.translate_progressively("a")


def test_a_text_that_cannot_be_encoded_is_refused_with_its_field(client: Client) -> None:
    with pytest.raises(sdk.InvalidRequestError) as caught:
        client.translate_progressively("\ud800")
    assert [violation.field for violation in caught.value.violations] == ["content"]


@pytest.mark.parametrize("answers", [[], [pb.TranslateTextProgressivelyResponse(text_delta="A")]])
def test_an_end_without_translation_is_a_server_fault(
    client: Client, script: Script, answers: list[pb.TranslateTextProgressivelyResponse]
) -> None:
    script.on_progressive = lambda request, context: iter(answers)
    with pytest.raises(sdk.ServerFaultError, match="without a translation"):
        client.translate_progressively("a")


def endless(ended: threading.Event) -> Any:
    """Send one part, then wait until the client cancels."""

    def respond(request: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        yield pb.TranslateTextProgressivelyResponse(text_delta="A")
        ended.wait(20)

    return respond


def test_the_timeout_applies_to_the_whole_call(client: Client, script: Script) -> None:
    ended = threading.Event()
    script.on_progressive = endless(ended)
    # The time of a call may be over before a busy server begins it.
    for timeout in (0.2, 5):
        with pytest.raises(sdk.DeadlineExceededError):
            client.translate_progressively("a", timeout=timeout)
        if ended.wait(5):
            return
    raise AssertionError("the server was not told")


@pytest.mark.parametrize("kind", [sdk.TranslationClient, sdk.AsyncTranslationClient])
async def test_leaving_early_cancels_the_call(script: Script, kind: Any) -> None:
    ended = threading.Event()
    script.on_progressive = endless(ended)
    client = kind(script.address)
    parts = client.translate_progressively("a")
    if isinstance(client, sdk.AsyncTranslationClient):
        assert (await anext(parts)).text_delta == "A"
        await parts.aclose()
    else:
        assert next(parts).text_delta == "A"
        del parts
    assert await asyncio.to_thread(ended.wait, 120)
    await finished(client.close())
