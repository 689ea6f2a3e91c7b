"""Traces, exemplars, access log and request ids of a real server, called by the real client."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from otlp import Collector, attributes_of, collecting, traced_caller
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Exemplar
from tests.integration.conftest import shared

from xuanzang.client import AsyncTranslationClient, InvalidRequestError, TranslationClient, TranslationError
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

TEXTS = ["我有一只猫。你好。", "今天天气很好"]
UNARY = "xuanzang.translation.v1.TranslationService/TranslateText"
CONTENTS = {
    *("time", "request_id", "trace_id", "method", "code", "seconds"),
    *("tokenize_seconds", "queue_seconds", "encode_seconds", "decode_seconds"),
    *("model", "version", "first_model", "texts", "characters", "sentences", "source_tokens", "target_tokens"),
    *("caller_kind", "caller_key", "caller_address", "reason", "fields"),
}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as started:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", started.endpoint)
        yield started


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def openmetrics(running: Any) -> str:
    request = urllib.request.Request(running.metrics_url, headers={"Accept": "application/openmetrics-text"})

    def fetch() -> str:
        with urllib.request.urlopen(request) as response:
            text: str = response.read().decode()
            return text

    return await asyncio.to_thread(fetch)


def exemplars_of(text: str) -> dict[str, Exemplar]:
    """Return an exemplar of each metric that has some, from a scrape in OpenMetrics' format."""
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    samples = (sample for family in families for sample in family.samples)
    return {sample.name: sample.exemplar for sample in samples if sample.exemplar}


async def test_spans_of_a_call_lie_in_the_trace_of_its_caller(start_server: Any, collector: Collector) -> None:
    async with start_server(tracing=True) as running, AsyncTranslationClient(running.address) as client:
        with traced_caller() as caller:
            await client.translate(TEXTS)
    [rpc] = collector.below(caller)
    assert (rpc.name, rpc.kind) == (UNARY, rpc.SPAN_KIND_SERVER)
    found = attributes_of(rpc)
    assert (found["rpc.grpc.status_code"], found["xuanzang.model"], found["xuanzang.sentences"]) == (0, "tiny", 3)
    assert found["xuanzang.characters"] == sum(map(len, TEXTS))
    children = collector.below(rpc)
    assert sorted(span.name for span in children) == sorted(["tokenize", "queue", *["encode", "decode"] * 3])
    for span in children:
        assert rpc.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= rpc.end_time_unix_nano
    decoded = [attributes_of(span) for span in children if span.name == "decode"]
    assert sorted(each["xuanzang.sentence"] for each in decoded) == [0, 1, 2]
    assert all(each["xuanzang.steps"] >= 1 and 1 <= each["xuanzang.batch_size"] <= 3 for each in decoded)
    assert collector.service_names == {"xuanzang-server"}


async def test_every_way_of_calling_passes_the_trace_on(
    start_server: Any, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocking(address: str) -> None:
        with TranslationClient(address) as client, traced_caller() as caller:
            callers.append(caller)
            client.translate(TEXTS[:1])
            assert len(list(client.translate_stream(TEXTS))) == 2
            assert list(client.translate_progressively(TEXTS[0]))

    callers: list[Any] = []
    monkeypatch.setenv("OTEL_SERVICE_NAME", "translations")
    async with start_server(tracing=True) as running, AsyncTranslationClient(running.address) as client:
        await asyncio.to_thread(blocking, running.address)
        with traced_caller() as caller:
            callers.append(caller)
            await client.translate(TEXTS[:1])
            assert len([each async for each in client.translate_stream(TEXTS)]) == 2
            assert [each async for each in client.translate_progressively(TEXTS[0])]
    for caller in callers:
        rpcs = collector.below(caller)
        names = [span.name.rpartition("/")[2] for span in rpcs]
        assert sorted(names) == ["StreamTranslateText", "TranslateText", "TranslateTextProgressively"]
        assert all({"queue", "decode"} <= {span.name for span in collector.below(rpc)} for rpc in rpcs)
    assert collector.service_names == {"translations"}


async def test_latencies_have_the_trace_as_exemplar(start_server: Any, collector: Collector) -> None:
    async with start_server(tracing=True) as running, AsyncTranslationClient(running.address) as client:
        with traced_caller() as caller:
            await client.translate(TEXTS)
            assert [each async for each in client.translate_progressively(TEXTS[0])]
        await running.server.rpc.join()
        exemplars = exemplars_of(await openmetrics(running))
        assert "trace_id" not in (await asyncio.to_thread(urllib.request.urlopen, running.metrics_url)).read().decode()
    assert set(exemplars) == {
        "grpc_server_handling_seconds_bucket",
        "nmt_request_duration_seconds_bucket",
        "nmt_answer_duration_seconds_bucket",
        "nmt_first_text_duration_seconds_bucket",
    }
    spans = {span.span_id.hex() for span in collector.below(caller)}
    assert {each.labels["trace_id"] for each in exemplars.values()} == {f"{caller.trace_id:032x}"}
    assert {each.labels["span_id"] for each in exemplars.values()} <= spans


async def test_a_failed_call_is_traced_without_the_words_of_its_error(start_server: Any, collector: Collector) -> None:
    async with start_server(tracing=True) as running, AsyncTranslationClient(running.address) as client:
        with traced_caller() as caller, pytest.raises(TranslationError, match="no-such-model"):
            await client.translate(TEXTS, model="no-such-model")
    [rpc] = collector.below(caller)
    assert attributes_of(rpc)["rpc.grpc.status_code"] == grpc.StatusCode.NOT_FOUND.value[0]
    assert b"no-such-model" not in rpc.SerializeToString()


async def test_the_access_log_has_a_line_for_each_rpc(start_server: Any, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    async with start_server(access_log=str(log)) as running, AsyncTranslationClient(running.address) as client:
        await client.translate(TEXTS)
        assert len([each async for each in client.translate_stream(TEXTS)]) == 2
        with pytest.raises(InvalidRequestError) as caught:
            await client.translate(TEXTS, beam_size=1000)
    unary, stream, refused = lines_of(log)
    assert set(unary) == set(stream) == set(refused) == CONTENTS
    expected = {
        "method": "TranslateText",
        "code": "OK",
        "model": "tiny",
        "version": 1,
        "texts": 2,
        "sentences": 3,
        "characters": 15,
        "caller_kind": "address",
        "caller_key": None,
        "caller_address": "loopback",
    }
    assert unary.items() >= expected.items()
    assert unary["source_tokens"] > 3
    assert unary["target_tokens"] >= 3
    parts = ("tokenize_seconds", "queue_seconds", "encode_seconds", "decode_seconds")
    assert all(0 < unary[part] < unary["seconds"] for part in parts)
    assert (stream["method"], stream["code"], stream["texts"]) == ("StreamTranslateText", "OK", 2)
    assert (refused["code"], refused["model"], refused["texts"]) == ("INVALID_ARGUMENT", None, 0)
    assert refused["request_id"] == caught.value.request_id


async def test_an_access_log_that_cannot_be_written_ends_the_start(start_server: Any, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        async with start_server(access_log=str(tmp_path / "nowhere" / "access.log")):
            pass


async def test_nothing_that_callers_write_is_traced_logged_or_measured(
    start_server: Any, collector: Collector, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "access.log"
    markers = [secrets.token_hex(8) for _ in range(6)]
    text, prefix, name, model, stream, part = markers
    # Some of what is drawn looks like words of a language that is not served.
    chinese: Any = {"source_language": "zh"}
    with caplog.at_level(logging.DEBUG):
        async with start_server(tracing=True, access_log=str(log)) as running:
            async with AsyncTranslationClient(running.address, client_id=name) as client:
                translated = await client.translate([f"{text}。{text}", "你有十只猫。"], **chinese)
                await client.translate_one(text, target_prefix=prefix[:1], **chinese)
                for refused in ({"target_prefix": prefix}, {"model": model}):
                    with pytest.raises(TranslationError):
                        await client.translate([text] * 2000, **refused)  # type: ignore[arg-type]
                assert [each async for each in client.translate_stream([stream], **chinese)]
                assert [each async for each in client.translate_progressively(part, **chinese)]
            await running.server.rpc.join()
            scraped = await openmetrics(running)
    exported = b"".join(export.SerializeToString() for export in collector.exports).decode("latin-1")
    logged = "".join(str(vars(record)) for record in caplog.records if record.name.startswith("xuanzang"))
    assert collector.spans
    assert len(lines_of(log)) == 6
    for place in (exported, log.read_text(), scraped, logged):
        assert not any(marker in place for marker in markers)
        # The first may be a single letter, or empty: bytes that form no character are left out.
        assert len(translated[1].text) > 10
        assert translated[1].text not in place


@shared
async def stub(running: Any) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(running.address) as channel:
        yield translation_pb2_grpc.TranslationServiceStub(channel)


async def answered_id(stub: Any, request: pb.TranslateTextRequest, *metadata: tuple[str, str]) -> str:
    call = stub.TranslateText(request, metadata=metadata)
    await call.code()
    found: str = dict(await call.trailing_metadata())["x-request-id"]
    return found


@pytest.mark.parametrize("contents", [["你好"], []])
async def test_a_valid_request_id_of_the_caller_comes_back(stub: Any, contents: list[str]) -> None:
    request = pb.TranslateTextRequest(contents=contents)
    for chosen in ("7", "urn:uuid:6b1f-+/=._", "x" * 128):
        assert await answered_id(stub, request, ("x-request-id", chosen)) == chosen


async def test_a_request_without_a_valid_id_gets_a_new_one(stub: Any) -> None:
    request = pb.TranslateTextRequest(contents=["你好"])
    chosen = ["", "x" * 129, "two words", 'quote"', "<b>"]
    made = [await answered_id(stub, request, ("x-request-id", each)) for each in chosen]
    made.append(await answered_id(stub, request))
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in made)
    assert len(set(made)) == len(made)
