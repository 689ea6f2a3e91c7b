"""Google's own client, unmodified, in front of an engine that the test controls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.text.language_detection import DetectedLanguage
from xuanzang.translation.v1 import translation_pb2 as pb

exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")
translate_v3 = pytest.importorskip("google.cloud.translate_v3", reason="needs the extra `google`")

PARENT = "projects/any/locations/global"
GLOSSARIES = {
    *("CreateGlossary", "DeleteGlossary", "GetGlossary", "ListGlossaries"),
    *("CreateGlossaryEntry", "DeleteGlossaryEntry", "GetGlossaryEntry", "ListGlossaryEntries"),
}
SERVICE = "google.cloud.translation.v3.TranslationService"


def client_of(served: Any) -> Any:
    transport = translate_v3.TranslationServiceAsyncClient.get_transport_class("grpc_asyncio")
    return translate_v3.TranslationServiceAsyncClient(transport=transport(channel=served.channel))


async def translated(served: Any, contents: list[str], **fields: Any) -> list[str]:
    request = {"parent": PARENT, "contents": contents, "mime_type": "text/plain", "target_language_code": "en"} | fields
    answer = await client_of(served).translate_text(request=request)
    return [translation.translated_text for translation in answer.translations]


async def refused(served: Any, error: type[Exception], **fields: Any) -> Any:
    with pytest.raises(error) as caught:
        await translated(served, fields.pop("contents", ["a"]), **fields)
    return caught.value


def violated(error: Any) -> list[str]:
    """Return the fields that the details of an error name."""
    return [violation.field for detail in error.details for violation in getattr(detail, "field_violations", ())]


async def test_texts_are_translated_in_their_order(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        assert await translated(served, ["a", "b", "", "d"]) == ["A", "B", "", "D"]


async def test_a_translation_names_the_model_in_googles_form(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        request = {"contents": ["a"], "target_language_code": "en"}
        for parent in ("projects/any", PARENT):
            answer = await client_of(served).translate_text(request={**request, "parent": parent})
            assert answer.translations[0].model == f"{PARENT}/models/tiny/1"


@pytest.mark.parametrize("model", ["", f"{PARENT}/models/general/nmt", f"{PARENT}/models/tiny", "tiny"])
async def test_a_model_is_googles_general_one_or_a_served_one(serve: Any, model: str) -> None:
    async with serve(faces=["google"]) as served:
        assert await translated(served, ["a"], model=model) == ["A"]


async def test_a_model_that_is_not_served_is_not_found(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        await refused(served, exceptions.NotFound, model=f"{PARENT}/models/large")


def faults() -> Iterator[Any]:
    yield pytest.param({"parent": "nothing"}, ["parent"], id="parent")
    yield pytest.param({"parent": "projects/" + "x" * 600}, ["parent"], id="long parent")
    yield pytest.param({"model": "projects/p/models"}, ["model"], id="model")
    yield pytest.param({"mime_type": "text/markdown"}, ["mime_type"], id="MIME type")
    yield pytest.param({"labels": {str(number): "" for number in range(65)}}, ["labels"], id="many labels")
    yield pytest.param({"labels": {"key": "x" * 64}}, ["labels"], id="long label")
    yield pytest.param({"glossary_config": {"glossary": "g"}}, ["glossary_config.glossary"], id="glossary's name")
    unknown = {"glossary_config": {"glossary": f"{PARENT}/glossaries/none"}}
    yield pytest.param(unknown, ["glossary_config.glossary"], id="unknown glossary")
    case = {"glossary_config": {"glossary": f"{PARENT}/glossaries/none", "ignore_case": True}}
    yield pytest.param(case, ["glossary_config.ignore_case"], id="case")
    yield pytest.param(
        {"transliteration_config": {"enable_transliteration": True}}, ["transliteration_config"], id="transliteration"
    )
    yield pytest.param({"contents": []}, ["contents"], id="no contents")
    yield pytest.param({"contents": ["a"] * 1025}, ["contents"], id="many contents")
    yield pytest.param({"source_language_code": "??"}, ["source_language_code"], id="source language")
    yield pytest.param({"parent": "", "mime_type": "text/x"}, ["parent", "mime_type"], id="two faults")


@pytest.mark.parametrize(("fields", "named"), list(faults()))
async def test_a_fault_is_an_invalid_argument_with_its_field(serve: Any, fields: Any, named: list[str]) -> None:
    async with serve(faces=["google"]) as served:
        assert violated(await refused(served, exceptions.InvalidArgument, **fields)) == named
        assert not served.engine.asked_for("options")


async def test_labels_within_the_limits_change_nothing(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        assert await translated(served, ["a"], labels={"team": "books"}) == ["A"]


@pytest.mark.parametrize(("mime_type", "format_"), [("text/plain", "TEXT"), ("text/html", "HTML"), ("", "HTML")])
async def test_text_without_a_mime_type_is_html_as_at_google(serve: Any, mime_type: str, format_: str) -> None:
    async with serve(faces=["google"]) as served:
        await translated(served, ["a"], mime_type=mime_type)
        assert [each.name for each in served.engine.asked_for("content_format")] == [format_]


async def test_overload_says_when_to_try_again(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        served.engine.raised["a"] = OverloadedError("the queue is full", retry_after_seconds=2.5)
        error = await refused(served, exceptions.ResourceExhausted)
        assert [detail.retry_delay.ToMilliseconds() for detail in error.details] == [2500]


async def test_a_busy_server_refuses_unread_and_counts_it(serve: Any) -> None:
    labels = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "TranslateText"}
    async with serve(faces=["google"]) as served:
        served.engine.needed_seconds = 1000.0
        await refused(served, exceptions.ResourceExhausted)
        assert not served.engine.asked_for("options")
        async with asyncio.timeout(30):
            while not served.value("grpc_server_handled_total", **labels, grpc_code="RESOURCE_EXHAUSTED"):
                await served.stub.ListModels(pb.ListModelsRequest())
        assert served.value("grpc_server_msg_received_total", **labels) == 0


async def test_the_deadline_reaches_the_engine_and_ends_its_work(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        served.engine.hold("a")
        request = {"parent": PARENT, "contents": ["a"], "target_language_code": "en"}
        client, seconds = client_of(served), 0.2
        # On a busy machine the time may be over before the engine is asked.
        while not served.engine.asked_for("deadline"):
            with pytest.raises(exceptions.DeadlineExceeded):
                await client.translate_text(request=request, timeout=seconds)
            seconds *= 2
        await served.engine.until(served.engine.cancelled, {"a"})
        assert served.engine.asked_for("deadline")[0] is not None


@pytest.mark.parametrize("code", ["de", "zh", "zh-Hant"])
async def test_a_detected_language_has_the_code_that_is_listed(serve: Any, code: str) -> None:
    async with serve(faces=["google"]) as served:
        served.engine.detected = [DetectedLanguage(code=code, confidence=0.75)]
        answer = await client_of(served).detect_language(parent=PARENT, content="a")
        assert [(each.language_code, each.confidence) for each in answer.languages] == [(code, 0.75)]


async def test_a_text_in_no_language_is_undetermined(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        served.engine.detected = []
        answer = await client_of(served).detect_language(parent=PARENT, content="7")
        assert [(each.language_code, each.confidence) for each in answer.languages] == [("und", 0)]


async def test_a_server_that_detects_nothing_says_so(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        with pytest.raises(exceptions.MethodNotImplemented):
            await client_of(served).detect_language(parent=PARENT, content="a")


async def test_only_the_detector_detects(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        served.engine.detected = []
        request = {"parent": PARENT, "content": "a", "model": f"{PARENT}/models/language-detection/default"}
        await client_of(served).detect_language(request=request)
        with pytest.raises(exceptions.InvalidArgument) as caught:
            await client_of(served).detect_language(request={**request, "model": f"{PARENT}/models/tiny"})
    assert violated(caught.value) == ["model"]


async def test_the_languages_are_those_of_the_models(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        answer = await client_of(served).get_supported_languages(parent=PARENT)
        listed = [(each.language_code, each.support_source, each.support_target) for each in answer.languages]
        assert listed == [("en", False, True), ("zh", True, False)]
        with pytest.raises(exceptions.NotFound):
            await client_of(served).get_supported_languages(parent=PARENT, model=f"{PARENT}/models/large")


@pytest.mark.parametrize(
    ("language", "names"), [("", ["", ""]), ("en", ["English", "Chinese"]), ("zh-CN", ["英语", "中文"])]
)
async def test_languages_are_named_in_the_language_asked_for(serve: Any, language: str, names: list[str]) -> None:
    async with serve(faces=["google"]) as served:
        answer = await client_of(served).get_supported_languages(
            request={"parent": PARENT, "display_language_code": language}
        )
        assert [each.display_name for each in answer.languages] == names


@pytest.mark.parametrize("language", ["xx-none", "?", "e" * 100, "../en"])
async def test_a_language_without_names_for_others_is_refused(serve: Any, language: str) -> None:
    async with serve(faces=["google"]) as served:
        with pytest.raises(exceptions.InvalidArgument) as caught:
            await client_of(served).get_supported_languages(
                request={"parent": PARENT, "display_language_code": language}
            )
    assert violated(caught.value) == ["display_language_code"]


async def test_every_other_method_of_the_api_is_refused_by_name(serve: Any) -> None:
    metadata = json.loads((files("google.cloud.translate_v3") / "gapic_metadata.json").read_text(encoding="utf-8"))
    methods = set(metadata["services"]["TranslationService"]["clients"]["grpc"]["rpcs"])
    others = methods - {"TranslateText", "DetectLanguage", "GetSupportedLanguages", *GLOSSARIES}
    async with serve(faces=["google"]) as served:
        for method in sorted(others):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.channel.unary_unary(f"/{SERVICE}/{method}")(b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert str(caught.value.details()).startswith(f"{method} is not offered")
    assert {"BatchTranslateText", "UpdateGlossary"} < others


async def test_the_gate_holds_for_a_face(serve: Any) -> None:
    async with serve(faces=["google"], opened=False) as served:
        await refused(served, exceptions.ServiceUnavailable)


async def test_without_the_setting_there_is_no_face(serve: Any) -> None:
    async with serve() as served:
        await refused(served, exceptions.MethodNotImplemented)


async def test_reflection_lists_the_face(serve: Any) -> None:
    async with serve(faces=["google"]) as served:
        stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        [listed] = [answer async for answer in stub.ServerReflectionInfo(iter([request]))]
    assert SERVICE in {service.name for service in listed.list_services_response.service}
