"""Google's own clients, unmodified, over gRPC and over HTTP, in front of a server that stands in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from gateways import RunningGateway, running_gateway
from google.protobuf.duration_pb2 import Duration
from stand_in_server import StandIn, standing_in

from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")
api_key = pytest.importorskip("google.auth.credentials", reason="needs the extra `google`")
translate_v3 = pytest.importorskip("google.cloud.translate_v3", reason="needs the extra `google`")
rest = pytest.importorskip("google.cloud.translate_v3.services.translation_service.transports.rest")

PARENT = "projects/any/locations/global"
NAME = f"{PARENT}/glossaries/animals"


def client_of(gateway: RunningGateway, carrier: str) -> Any:
    if carrier == "grpc":
        transport = translate_v3.TranslationServiceClient.get_transport_class("grpc")
        channel = grpc.insecure_channel(gateway.grpc_address)
        return translate_v3.TranslationServiceClient(transport=transport(channel=channel))
    anonymous = api_key.AnonymousCredentials()
    transport = rest.TranslationServiceRestTransport(
        host=f"127.0.0.1:{gateway.port}", credentials=anonymous, url_scheme="http"
    )
    return translate_v3.TranslationServiceClient(transport=transport)


@pytest.fixture(params=["grpc", "http"])
def client(request: pytest.FixtureRequest, gateway: RunningGateway) -> Iterator[Any]:
    with client_of(gateway, request.param) as made:
        yield made


async def translated(client: Any, contents: list[str], **fields: Any) -> list[str]:
    request = {"parent": PARENT, "contents": contents, "mime_type": "text/plain", "target_language_code": "en"} | fields
    answer = await asyncio.to_thread(client.translate_text, request=request)
    return [translation.translated_text for translation in answer.translations]


async def refused(client: Any, error: type[Exception], **fields: Any) -> Any:
    with pytest.raises(error) as caught:
        await translated(client, fields.pop("contents", ["a"]), **fields)
    return caught.value


def violated(error: Any) -> list[str]:
    """Return the fields that the details of an error name."""
    found = []
    for detail in error.details:
        listed = detail["fieldViolations"] if isinstance(detail, dict) else getattr(detail, "field_violations", ())
        found += [each["field"] if isinstance(each, dict) else each.field for each in listed]
    return found


async def test_texts_are_translated_in_their_order(client: Any) -> None:
    assert await translated(client, ["a", "b", "", "d"]) == ["A", "B", "", "D"]


async def test_a_translation_names_the_model_in_googles_form(client: Any) -> None:
    for parent in ("projects/any", PARENT):
        request = {"contents": ["a"], "target_language_code": "en", "parent": parent}
        (found,) = (await asyncio.to_thread(client.translate_text, request=request)).translations
        assert (found.model, found.detected_language_code) == (f"{PARENT}/models/tiny/1", "zh")


async def test_a_model_is_googles_general_one_or_a_served_one(client: Any) -> None:
    for model in ("", f"{PARENT}/models/general/nmt", f"{PARENT}/models/tiny", "tiny"):
        assert await translated(client, ["a"], model=model) == ["A"]
    await refused(client, exceptions.NotFound, model=f"{PARENT}/models/large")


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"model": "projects/p/models"}, "model"),
    ({"mime_type": "text/markdown"}, "mime_type"),
    ({"labels": {str(number): "" for number in range(65)}}, "labels"),
    ({"labels": {"key": "x" * 64}}, "labels"),
    ({"glossary_config": {"glossary": "g"}}, "glossary_config.glossary"),
    ({"glossary_config": {"glossary": f"{PARENT}/glossaries/none"}}, "glossary_config.glossary"),
    (
        {"glossary_config": {"glossary": f"{PARENT}/glossaries/none", "ignore_case": True}},
        "glossary_config.ignore_case",
    ),
    ({"transliteration_config": {"enable_transliteration": True}}, "transliteration_config"),
    ({"contents": []}, "contents"),
    ({"contents": ["a"] * 1025}, "contents"),
    ({"target_language_code": ""}, "target_language_code"),
    ({"model": "a/b/c", "mime_type": "text/x"}, "model mime_type"),
]


async def test_a_fault_is_an_invalid_argument_with_its_field(client: Any) -> None:
    for fields, named in FAULTS:
        assert violated(await refused(client, exceptions.BadRequest, **fields)) == named.split()


async def test_a_parent_must_name_a_project(gateway: RunningGateway) -> None:
    with client_of(gateway, "grpc") as client:
        for parent in ("nothing", "projects/" + "x" * 600):
            assert violated(await refused(client, exceptions.BadRequest, parent=parent)) == ["parent"]


async def test_text_without_a_mime_type_is_html_as_at_google(client: Any, server: StandIn) -> None:
    for mime_type, is_html in (("text/plain", False), ("text/html", True), ("", True)):
        await translated(client, ["a"], mime_type=mime_type)
        assert (server.asked[-1].settings.content_format == pb.CONTENT_FORMAT_HTML) is is_html


async def test_overload_says_when_to_try_again() -> None:
    retry = status_pb2.RetryInfo(retry_delay=Duration(seconds=300, nanos=500_000_000))
    server = StandIn(refusals={"a": (grpc.StatusCode.RESOURCE_EXHAUSTED, [retry])})
    async with standing_in(server) as address, running_gateway(address, grpc_address="127.0.0.1:0") as gateway:
        with client_of(gateway, "grpc") as client:
            error = await refused(client, exceptions.ResourceExhausted)
            assert [detail.retry_delay.ToMilliseconds() for detail in error.details] == [300_500]
        with client_of(gateway, "http") as client:
            await refused(client, exceptions.TooManyRequests)


async def test_languages_have_googles_codes_and_names(client: Any, server: StandIn) -> None:
    server.sources, server.targets = ("en",), ("zh", "zh-Hant")
    request = {"parent": PARENT, "display_language_code": "de"}
    answer = await asyncio.to_thread(client.get_supported_languages, request=request)
    found = {each.language_code: (each.display_name, each.support_source) for each in answer.languages}
    assert found["en"] == ("Englisch", True)
    assert {"zh", "zh-CN", "zh-TW", "zh-Hant"} < found.keys()
    assert not found["zh-TW"][1]


async def test_googles_codes_of_chinese_are_served(client: Any, server: StandIn) -> None:
    server.sources, server.targets = ("en",), ("zh", "zh-Hant")
    for wanted, asked in (("zh-TW", "zh-Hant"), ("zh-CN", "zh"), ("zh-Hant", "zh-Hant")):
        await translated(client, ["a"], source_language_code="en", target_language_code=wanted)
        assert server.asked[-1].settings.target_language_code == asked


async def test_a_detected_language_is_a_listed_one(client: Any, server: StandIn) -> None:
    server.sources, server.targets, server.detected = ("zh", "en"), ("en", "zh"), {"好": "zh-Hans"}
    for content, code in (("好", "zh-CN"), (" ", "und")):
        answer = await asyncio.to_thread(client.detect_language, parent=PARENT, content=content)
        assert answer.languages[0].language_code in (code, "zh" if code == "zh-CN" else code)


async def test_glossaries_are_listed_used_and_deleted_by_their_names(client: Any, server: StandIn) -> None:
    entries = [pb.GlossaryEntry(source="cat", targets=["tiger"])]
    server.glossaries["animals"] = pb.CreateGlossaryRequest(
        name="animals", source_language_code="zh", target_language_code="en", entries=entries
    )
    listed = await asyncio.to_thread(lambda: list(client.list_glossaries(parent=PARENT)))
    assert [(each.name, each.entry_count) for each in listed] == [(NAME, 1)]
    capital = f"{PARENT}/glossaries/Animals"
    assert (await asyncio.to_thread(client.get_glossary, name=capital)).name == capital
    request: dict[str, Any] = {"parent": PARENT, "contents": ["a cat"], "target_language_code": "en"}
    request |= {"mime_type": "text/plain", "glossary_config": {"glossary": capital}}
    answer = await asyncio.to_thread(client.translate_text, request=request)
    assert answer.glossary_translations[0].translated_text == "a tiger"
    assert answer.glossary_translations[0].glossary_config.glossary == capital


async def test_deleting_a_glossary_is_an_operation_that_is_over(gateway: RunningGateway, server: StandIn) -> None:
    server.glossaries["animals"] = pb.CreateGlossaryRequest(name="animals")
    with client_of(gateway, "grpc") as client:
        operation = await asyncio.to_thread(client.delete_glossary, name=NAME)
        assert operation.result(timeout=60).name == NAME
        with pytest.raises(exceptions.NotFound):
            await asyncio.to_thread(client.get_glossary, name=NAME)


async def test_what_is_not_offered_is_refused_by_name(gateway: RunningGateway) -> None:
    with client_of(gateway, "grpc") as client, pytest.raises(exceptions.MethodNotImplemented, match="RomanizeText"):
        await asyncio.to_thread(client.romanize_text, parent=PARENT, contents=["a"])


translate_v2 = pytest.importorskip("google.cloud.translate_v2", reason="needs the extra `google`")


@pytest.fixture
def older(gateway: RunningGateway) -> Any:
    anonymous = api_key.AnonymousCredentials()
    return translate_v2.Client(credentials=anonymous, client_options={"api_endpoint": gateway.url})


async def test_the_client_of_version_2_translates_detects_and_lists(older: Any, server: StandIn) -> None:
    server.sources, server.targets, server.detected = ("zh", "en"), ("en", "zh"), {"hello": "en"}
    one = await asyncio.to_thread(older.translate, "a", target_language="en")
    assert (one["translatedText"], one["detectedSourceLanguage"], one["input"]) == ("A", "zh", "a")
    several = await asyncio.to_thread(older.translate, ["a", "b"], target_language="en", source_language="zh")
    assert [each["translatedText"] for each in several] == ["A", "B"]
    found = await asyncio.to_thread(older.detect_language, ["hello"])
    assert [each["language"] for each in found] == ["en"]
    listed = await asyncio.to_thread(older.get_languages, "de")
    assert {"language": "en", "name": "Englisch"} in listed


async def test_faults_of_version_2_are_googles(older: Any) -> None:
    with pytest.raises(exceptions.BadRequest, match="format"):
        await asyncio.to_thread(older.translate, "a", target_language="en", format_="pdf")


async def test_texts_may_stand_in_the_address(gateway: RunningGateway) -> None:
    root = "/language/translate/v2"
    answer = await gateway.get(f"{root}?key=any&q=a&q=b&target=en&format=text")
    assert [each["translatedText"] for each in answer.json["data"]["translations"]] == ["A", "B"]
    missing = await gateway.get(f"{root}?key=any&target=en")
    assert (missing.status, missing.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
