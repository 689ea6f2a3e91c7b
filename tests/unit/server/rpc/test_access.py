"""Keys and their quotas on a real port, in front of an engine and a clock that the test controls."""

from __future__ import annotations

import asyncio
import hmac
import logging
from contextlib import suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
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
    listing,
    retry_seconds,
    unary,
    violations,
)

from xuanzang.server.access.keys import change_keys
from xuanzang.server.rpc.services.health import HEALTH_SERVICE, TRANSLATION_SERVICE
from xuanzang.server.watched_files import reload_changed
from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.mark.parametrize("face", [*FACES, listing])
async def test_only_a_right_key_is_answered(serve: Any, keys_file: KeysFile, face: Face) -> None:
    key, other = keys_file.add(), keys_file.add()
    mixed = key.rpartition("_")[0] + "_" + other.rpartition("_")[2]
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        for right in (bearer(key), (("authorization", f"bearer {key}"),), (("x-api-key", key),)):
            assert code_of(await face(served, right)) is Code.OK
        refused = [
            (),
            bearer(mixed),
            bearer(key + "x"),
            bearer(""),
            bearer(key) + bearer(other),
            (("authorization", key),),
            (("authorization", f"Basic {key}"),),
            (("x-api-key", "xz_unknown_" + "0" * 64),),
        ]
        for wrong in refused:
            status = await face(served, wrong)
            assert code_of(status) is Code.UNAUTHENTICATED, wrong
            assert key not in status.message
    assert served.engine.running == []


@pytest.mark.parametrize("method", ["TranslateText", "TranslateTextProgressively", "StreamTranslateText"])
async def test_without_a_key_one_is_refused_before_it_sends(serve: Any, keys_file: KeysFile, method: str) -> None:
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        # Called as a stream, whatever the method is: no message is ever sent.
        call = served.channel.stream_stream(f"/{TRANSLATION_SERVICE}/{method}")()
        assert await call.code() is Code.UNAUTHENTICATED
    # A call is counted after its status was sent; a server that has stopped has counted all.
    handled = {
        labels["grpc_method"]: value
        for family in served.registry.collect()
        for name, labels, value, *_ in family.samples
        if name == "grpc_server_handled_total" and labels["grpc_code"] == "UNAUTHENTICATED" and value
    }
    assert handled == {method: 1}


async def test_a_stream_without_a_key_is_told_so_also_while_it_sends(serve: Any, keys_file: KeysFile) -> None:
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        stream = served.channel.stream_stream(f"/{TRANSLATION_SERVICE}/StreamTranslateText")
        # A quarter ended with INTERNAL when the refusal came as the message was written.
        codes = [await stream(iter([b""])).code() for _ in range(40)]
    assert set(codes) == {Code.UNAUTHENTICATED}


async def test_wrong_unknown_and_revoked_keys_get_the_same_answer(serve: Any, keys_file: KeysFile) -> None:
    key = keys_file.add()
    keys_file.change(revoked=True)
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        answers = {
            (await unary(served, bearer(each))).SerializeToString(deterministic=True)
            for each in (key, key[:-1], "xz_unknown_secret", "nonsense")
        }
        assert len(answers) == 1
        assert served.value("nmt_access_refusals_total", reason="revoked") == 1
        assert served.value("nmt_access_refusals_total", reason="invalid") == 3
        assert served.value("nmt_keys") == 0


async def test_health_and_reflection_answer_without_a_key(serve: Any, keys_file: KeysFile) -> None:
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        health = health_pb2_grpc.HealthStub(served.channel)
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
        asked = {"list_services": ""}, {"file_containing_symbol": TRANSLATION_SERVICE}
        code, [listed, described] = await reflected(served, *asked)
    assert code is Code.OK
    assert {TRANSLATION_SERVICE, HEALTH_SERVICE} <= {each.name for each in listed.list_services_response.service}
    assert described.file_descriptor_response.file_descriptor_proto


async def test_reflection_can_be_turned_off(serve: Any) -> None:
    async with serve(reflection=False) as served:
        assert await reflected(served, {"list_services": ""}) == (Code.UNIMPLEMENTED, [])


async def reflected(served: Any, *asked: dict[str, str]) -> tuple[grpc.StatusCode, list[Any]]:
    """Return the status of reflection, and its answers."""
    stub, answers = reflection_pb2_grpc.ServerReflectionStub(served.channel), list[Any]()
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**each) for each in asked]))
    with suppress(grpc.aio.AioRpcError):
        answers += [answer async for answer in call]
    return await call.code(), answers


async def test_a_wrong_key_does_not_become_anonymous(serve: Any, keys_file: KeysFile) -> None:
    async with serve(keys_file=keys_file.path, anonymous=True) as served:
        assert code_of(await unary(served)) is Code.OK
        assert code_of(await unary(served, bearer("xz_a_b"))) is Code.UNAUTHENTICATED
    # Without a keys file the header is left alone.
    async with serve() as served:
        assert code_of(await unary(served, (("authorization", "Basic dTpw"),))) is Code.OK


@pytest.mark.parametrize("face", FACES)
async def test_the_key_is_the_caller_whatever_it_calls_itself(serve: Any, keys_file: KeysFile, face: Face) -> None:
    key, other = keys_file.add(), keys_file.add()
    async with serve(keys_file=keys_file.path) as served:
        await face(served, bearer(key))
        await face(served, (*bearer(key), ("x-client-id", "many names")))
        await face(served, bearer(other))
        await face(served)
        mine, same, others, anonymous = served.engine.asked_for("caller")
    assert mine == same
    assert len({mine, others, anonymous}) == 3


@pytest.mark.parametrize("face", FACES)
async def test_a_model_that_no_key_allows_is_denied_by_field(serve: Any, keys_file: KeysFile, face: Face) -> None:
    key = keys_file.add(models=["large", "tiny/2"])
    async with serve(keys_file=keys_file.path) as served:
        status = await face(served, bearer(key))
        assert code_of(status) is Code.PERMISSION_DENIED
        assert violations(status) == {
            "settings.model": "tiny/1 is not allowed with this API key; allowed: large, tiny/2"
        }
        models = await served.stub.ListModels(pb.ListModelsRequest(), metadata=bearer(key))
        assert list(models.models) == []
        [entry] = keys_file.entries()
        assert served.value("nmt_key_refusals_total", key=entry.id, reason="model") == 1


@pytest.mark.parametrize("allowed", ["tiny", "tiny/1"])
async def test_a_model_is_allowed_by_name_or_by_version(serve: Any, keys_file: KeysFile, allowed: str) -> None:
    key = keys_file.add(models=[allowed])
    async with serve(keys_file=keys_file.path) as served:
        assert code_of(await unary(served, bearer(key))) is Code.OK
        models = await served.stub.ListModels(pb.ListModelsRequest(), metadata=bearer(key))
        assert [model.name for model in models.models] == ["tiny"]


async def test_a_changed_file_is_taken_over_and_used_quotas_stay_used(serve: Any, keys_file: KeysFile) -> None:
    key = keys_file.add(requests_per_minute=2)
    async with serve(keys_file=keys_file.path, anonymous=False, clock=Clock()) as served:
        await unary(served, bearer(key))
        keys_file.change(requests_per_minute=3)
        added = keys_file.add()
        await reload_changed([served.keys])
        assert code_of(await unary(served, bearer(added))) is Code.OK
        codes = [code_of(await unary(served, bearer(key))) for _ in range(3)]
        assert codes == [Code.OK, Code.OK, Code.RESOURCE_EXHAUSTED]
        assert served.value("nmt_file_reloads_total", file="keys", result="ok") == 1
        assert served.value("nmt_keys") == 2


@pytest.mark.parametrize("end", [lambda file: file.change(revoked=True), KeysFile.clear])
async def test_a_revoked_key_ends_in_open_streams_too(serve: Any, keys_file: KeysFile, end: Any) -> None:
    key = keys_file.add()
    [entry] = keys_file.entries()
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        call = served.stub.StreamTranslateText(metadata=bearer(key))
        await call.write(pb.StreamTranslateTextRequest(content="a"))
        assert not (await call.read()).HasField("error")
        end(keys_file)
        await reload_changed([served.keys])
        await call.write(pb.StreamTranslateTextRequest(content="a"))
        assert code_of((await call.read()).error) is Code.UNAUTHENTICATED
        await call.done_writing()
        assert code_of(await unary(served, bearer(key))) is Code.UNAUTHENTICATED
        kept = bool(keys_file.entries())
        assert (served.value("nmt_key_requests_total", key=entry.id) == 1) is kept


@pytest.mark.parametrize("content", ["", "{", '{"keys": [{"id": "a"}]}', '{"format": 2, "keys": []}', None])
async def test_a_broken_file_keeps_the_old_keys_and_says_so(
    serve: Any, keys_file: KeysFile, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    key = keys_file.add()
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        if content is None:
            keys_file.path.unlink()
        else:
            keys_file.path.write_text(content)
        with caplog.at_level(logging.ERROR):
            await reload_changed([served.keys])
        assert code_of(await unary(served, bearer(key))) is Code.OK
        assert served.value("nmt_file_current", file="keys") == 0
        # The server also tries again by itself, every second, which it counts and does not log.
        assert served.value("nmt_file_reloads_total", file="keys", result="error") >= 1
        [record] = [record for record in caplog.records if record.message == "the old keys stay in use"]
        assert str(keys_file.path) in vars(record)["reason"]
        change_keys(keys_file.path.with_name("new"), lambda _: [])
        keys_file.path.with_name("new").replace(keys_file.path)
        await reload_changed([served.keys])
        assert served.value("nmt_file_current", file="keys") == 1
        assert code_of(await unary(served, bearer(key))) is Code.UNAUTHENTICATED


class CountedHmac:
    """The functions of `hmac` that keys are proved with, and how much each call of them has had to do."""

    def __init__(self) -> None:
        self.work: list[tuple[str, int]] = []

    def digest(self, salt: bytes, message: bytes, name: str) -> bytes:
        self.work.append(("digest", len(salt)))
        return hmac.digest(salt, message, name)

    def compare_digest(self, one: bytes, other: bytes) -> bool:
        self.work.append(("compare", len(one) + len(other)))
        return hmac.compare_digest(one, other)


async def test_refused_keys_cost_equal_work(serve: Any, keys_file: KeysFile, monkeypatch: pytest.MonkeyPatch) -> None:
    from xuanzang.server.access import keys

    revoked = keys_file.add()
    keys_file.change(revoked=True)
    key, counted = keys_file.add(), CountedHmac()
    async with serve(keys_file=keys_file.path, anonymous=False) as served:
        monkeypatch.setattr(keys, "hmac", counted)
        done = []
        for presented in (key, key[:-1] + "x", revoked, "xz_unknown_" + "0" * 64, "no key at all", ""):
            counted.work = []
            await unary(served, bearer(presented))
            done.append(tuple(counted.work))
    assert set(done) == {(("digest", 32), ("compare", 64))}


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
