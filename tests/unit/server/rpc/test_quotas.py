"""Quotas of keys on a real port, in front of an engine and a clock that the test controls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from keyed_rpcs import (
    FACES,
    Clock,
    Code,
    Face,
    KeysFile,
    bearer,
    code_of,
    ended,
    is_of_quota,
    retry_seconds,
    unary,
    violations,
)

from xuanzang.translation.v1 import translation_pb2 as pb


async def test_rpcs_of_a_key_are_counted_over_all_its_names(serve: Any, keys_file: KeysFile) -> None:
    key, other = keys_file.add(), keys_file.add()
    async with serve(keys_file=keys_file.path, max_caller_rpcs=1) as served:
        held = served.engine.hold("a")
        first = asyncio.ensure_future(unary(served, (*bearer(key), ("x-client-id", "one"))))
        await served.engine.until(served.engine.running, {"a"})
        assert code_of(await unary(served, (*bearer(key), ("x-client-id", "two")), "b")) is Code.RESOURCE_EXHAUSTED
        assert code_of(await unary(served, bearer(other), "b")) is Code.OK
        held.set()
        assert code_of(await first) is Code.OK


@pytest.mark.parametrize("face", FACES)
async def test_requests_over_quota_pass_exactly_after_the_delay(serve: Any, keys_file: KeysFile, face: Face) -> None:
    key, clock = keys_file.add(requests_per_minute=7), Clock()
    async with serve(keys_file=keys_file.path, clock=clock) as served:
        for _ in range(7):
            assert code_of(await face(served, bearer(key))) is Code.OK
        status = await face(served, bearer(key))
        assert code_of(status) is Code.RESOURCE_EXHAUSTED
        assert "7 requests per minute" in status.message
        assert is_of_quota(status)
        assert retry_seconds(status) == 8.572  # a seventh of a minute, in whole milliseconds
        clock.now += 8.570
        assert code_of(await face(served, bearer(key))) is Code.RESOURCE_EXHAUSTED
        clock.now += 0.002
        assert code_of(await face(served, bearer(key))) is Code.OK
        [entry] = keys_file.entries()
        assert served.value("nmt_key_requests_total", key=entry.id) == 8
        assert served.value("nmt_key_refusals_total", key=entry.id, reason="requests") == 2


@pytest.mark.parametrize("face", FACES)
async def test_characters_over_quota_pass_exactly_after_the_delay(serve: Any, keys_file: KeysFile, face: Face) -> None:
    key, clock = keys_file.add(characters_per_minute=60), Clock()
    async with serve(keys_file=keys_file.path, clock=clock) as served:
        assert code_of(await face(served, bearer(key), "好" * 50)) is Code.OK
        status = await face(served, bearer(key), "好" * 15)
        assert code_of(status) is Code.RESOURCE_EXHAUSTED
        assert retry_seconds(status) == 5
        assert code_of(await face(served, bearer(key), "好" * 10)) is Code.OK
        too_long = await face(served, bearer(key), "好" * 61)
        assert code_of(too_long) is Code.INVALID_ARGUMENT
        assert "at most 60 characters" in too_long.message
        clock.now += 5
        assert code_of(await face(served, bearer(key), "好" * 5)) is Code.OK
        [entry] = keys_file.entries()
        assert served.value("nmt_key_characters_total", key=entry.id) == 65


async def test_the_longer_delay_of_two_quotas_counts_and_refusals_are_free(serve: Any, keys_file: KeysFile) -> None:
    key, clock = keys_file.add(requests_per_minute=2, characters_per_minute=60), Clock()
    async with serve(keys_file=keys_file.path, clock=clock) as served:
        await unary(served, bearer(key), "x" * 60)
        assert retry_seconds(await unary(served, bearer(key), "x" * 40)) == 40
        assert retry_seconds(await unary(served, bearer(key), "x" * 40)) == 40
        clock.now += 40
        assert code_of(await unary(served, bearer(key), "x" * 40)) is Code.OK


async def test_every_text_of_a_stream_counts(serve: Any, keys_file: KeysFile) -> None:
    key = keys_file.add(requests_per_minute=3)
    async with serve(keys_file=keys_file.path, clock=Clock()) as served:
        requests = iter([pb.StreamTranslateTextRequest(id=str(n), content="a") for n in range(5)])
        call = served.stub.StreamTranslateText(requests, metadata=bearer(key))
        answers = [answer async for answer in call]
        assert await call.code() is Code.OK
    refused = [answer.error for answer in answers if answer.HasField("error")]
    assert len(answers) == 5
    assert [code_of(error) for error in refused] == [Code.RESOURCE_EXHAUSTED] * 2
    assert [retry_seconds(error) for error in refused] == [20, 20]


async def test_characters_of_what_was_refused_later_are_given_back(serve: Any, keys_file: KeysFile) -> None:
    key = keys_file.add(characters_per_minute=60, concurrent_sentences=1)
    async with serve(keys_file=keys_file.path, clock=Clock()) as served:
        held = served.engine.hold("a")
        first = asyncio.ensure_future(unary(served, bearer(key)))
        await served.engine.until(served.engine.running, {"a"})
        assert code_of(await unary(served, bearer(key), "x" * 59)) is Code.RESOURCE_EXHAUSTED
        held.set()
        await first
        assert code_of(await unary(served, bearer(key), "x" * 59)) is Code.OK


async def test_forced_tokens_are_charged_where_they_are_more_than_characters(serve: Any, keys_file: KeysFile) -> None:
    key, clock = keys_file.add(characters_per_minute=100), Clock()
    async with serve(keys_file=keys_file.path, clock=clock) as served:
        forced = pb.TranslateTextRequest(
            contents=["b", "bb"], settings=pb.TranslationSettings(options=pb.DecodingOptions(min_target_length=40))
        )
        call = served.stub.TranslateText(forced, metadata=bearer(key))
        assert code_of(await ended(call)) is Code.OK
        assert dict(await call.trailing_metadata())["x-usage-characters"] == "80"
        refused = await ended(served.stub.TranslateText(forced, metadata=bearer(key)))
        assert code_of(refused) is Code.RESOURCE_EXHAUSTED
        # What was charged for the texts of the refused call is given back.
        assert code_of(await unary(served, bearer(key), "b" * 20)) is Code.OK
        assert code_of(await unary(served, bearer(key), "b")) is Code.RESOURCE_EXHAUSTED


async def test_sentences_over_quota_are_refused_until_others_are_done(serve: Any, keys_file: KeysFile) -> None:
    key, clock = keys_file.add(concurrent_sentences=2), Clock()
    two = pb.TranslateTextRequest(contents=["b", "b"])
    async with serve(keys_file=keys_file.path, clock=clock) as served:
        [entry] = keys_file.entries()
        held = served.engine.hold("a")
        first = asyncio.ensure_future(unary(served, bearer(key)))
        await served.engine.until(served.engine.running, {"a"})
        assert served.value("nmt_key_sentences", key=entry.id) == 1
        refused = await ended(served.stub.TranslateText(two, metadata=bearer(key)))
        assert code_of(refused) is Code.RESOURCE_EXHAUSTED
        assert retry_seconds(refused) == 1  # nothing has been measured yet
        clock.now += 3
        held.set()
        assert code_of(await first) is Code.OK
        assert served.value("nmt_key_sentences", key=entry.id) == 0
        assert served.value("nmt_key_translated_sentences_total", key=entry.id) == 1
        assert code_of(await ended(served.stub.TranslateText(two, metadata=bearer(key)))) is Code.OK
        three = pb.TranslateTextRequest(contents=["b"] * 3)
        refused = await ended(served.stub.TranslateText(three, metadata=bearer(key)))
        assert violations(refused) == {"contents": "must have at most 2 sentences with this API key, has 3"}
        assert served.value("nmt_key_refusals_total", key=entry.id, reason="sentences") == 2
