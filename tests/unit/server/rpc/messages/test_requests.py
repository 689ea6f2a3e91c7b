from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.access.callers import Resolve
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.glossaries import GlossaryFolder
from xuanzang.server.engine.types import Route, ServedModel
from xuanzang.server.rpc.messages import requests
from xuanzang.text.types import ContentFormat
from xuanzang.translation.v1 import translation_pb2 as pb

NONE = GlossaryFolder(Path("none"))


@pytest.fixture
def resolve(served_model: ServedModel) -> Resolve:
    async def find(*, model: str, source_language: str, texts: Sequence[str], **_: object) -> Route:
        if source_language == "??":
            raise InvalidInputError([FieldViolation(field="source_language_code", description="must be BCP-47")])
        if model:
            raise ModelNotFoundError("no such model")
        return Route(model=served_model, target_language="en")

    return find


def unary(contents: Sequence[str] = ("a",), **settings: Any) -> pb.TranslateTextRequest:
    return pb.TranslateTextRequest(contents=contents, settings=pb.TranslationSettings(**settings))


async def read_unary(request: pb.TranslateTextRequest, resolve: Resolve) -> Call:
    return await requests.completed(requests.check_unary(request, max_characters=100), resolve, NONE)


async def read_stream(request: pb.StreamTranslateTextRequest, resolve: Resolve) -> Call:
    return await requests.completed(requests.check_stream(request, max_characters=100), resolve, NONE)


def faults(caught: pytest.ExceptionInfo[InvalidInputError]) -> dict[str, str]:
    return {fault.field: fault.description for fault in caught.value.violations}


@pytest.mark.parametrize("count", [0, 1025])
async def test_too_few_or_too_many_texts_are_refused(resolve: Resolve, count: int) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await read_unary(pb.TranslateTextRequest(contents=["a"] * count), resolve)
    assert faults(caught) == {"contents": f"must have 1 to 1024 elements, has {count}"}


async def test_1024_texts_are_accepted(resolve: Resolve) -> None:
    request = await read_unary(pb.TranslateTextRequest(contents=["a"] * 1024), resolve)
    assert len(request.texts) == 1024


async def test_all_faults_are_reported_at_once(resolve: Resolve) -> None:
    options = pb.DecodingOptions(beam_size=0, length_penalty=11)
    with pytest.raises(InvalidInputError) as caught:
        await read_unary(unary([], source_language_code="??", options=options), resolve)
    assert set(faults(caught)) == {"contents", "options.beam_size", "options.length_penalty", "source_language_code"}


async def test_faults_of_the_request_are_reported_before_a_missing_model(resolve: Resolve) -> None:
    with pytest.raises(InvalidInputError):
        await read_unary(unary([], model="none"), resolve)
    with pytest.raises(ModelNotFoundError):
        await read_unary(unary(model="none"), resolve)


async def test_the_id_of_a_streamed_text_is_limited_in_bytes(resolve: Resolve) -> None:
    assert (await read_stream(pb.StreamTranslateTextRequest(id="é" * 128), resolve)).texts == ("",)
    with pytest.raises(InvalidInputError) as caught:
        await read_stream(pb.StreamTranslateTextRequest(id="é" * 129), resolve)
    assert faults(caught) == {"id": "must have at most 256 bytes, has 258"}


def test_an_error_in_other_words_is_still_of_its_kind() -> None:
    fault = FieldViolation(field="contents[0]", description="is in fr")
    error = UnservedLanguageError([fault], detected=["fr"], served=["zh"])
    renamed = requests.as_sent(requests.for_single_text(error))
    assert isinstance(renamed, UnservedLanguageError)
    assert [each.field for each in renamed.violations] == ["content"]
    assert (renamed.detected, renamed.served) == (("fr",), ("zh",))


def test_faults_of_a_single_text_have_the_field_names_of_its_message() -> None:
    error = InvalidInputError(
        [
            FieldViolation(field="contents[0]", description="too long"),
            FieldViolation(field="options.num_hypotheses", description="must be 1, contents[0] has 2 sentences"),
        ]
    )
    assert requests.for_single_text(error).violations == (
        FieldViolation(field="content", description="too long"),
        FieldViolation(field="options.num_hypotheses", description="must be 1, content has 2 sentences"),
    )


@pytest.mark.parametrize("field", ["contents[3]", "content", "id", "attention_layers[0]"])
def test_fields_beside_the_settings_keep_their_names(field: str) -> None:
    [sent] = requests.as_sent(InvalidInputError([FieldViolation(field=field, description="x")])).violations
    assert sent == FieldViolation(field=field, description="x")


@pytest.mark.parametrize("message", [pb.TranslationSettings, pb.DecodingOptions])
def test_faults_of_settings_have_their_path_in_the_request(message: Any) -> None:
    path = {pb.TranslationSettings: "", pb.DecodingOptions: "options."}[message]
    fields = [f"{path}{field.name}" for field in message.DESCRIPTOR.fields]
    for field in fields:
        found = requests.as_sent(InvalidInputError([FieldViolation(field=field, description="x")]))
        assert [fault.field for fault in found.violations] == [f"settings.{field}"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, ContentFormat.TEXT), (1, ContentFormat.TEXT), (2, ContentFormat.HTML), (3, ContentFormat.XML)],
)
async def test_contents_are_text_unless_the_request_says_otherwise(
    resolve: Resolve, number: pb.ContentFormat.ValueType, expected: ContentFormat
) -> None:
    settings = pb.TranslationSettings(content_format=number)
    streamed = pb.StreamTranslateTextRequest(settings=settings)
    assert (await read_stream(streamed, resolve)).content_format is expected
    assert (await read_unary(unary(content_format=number), resolve)).content_format is expected


async def test_formats_of_later_versions_are_refused(resolve: Resolve) -> None:
    unknown = pb.TranslateTextRequest.FromString(b"\x0a\x01a\x12\x02\x28\x63")
    with pytest.raises(InvalidInputError) as caught:
        await read_unary(unknown, resolve)
    assert faults(caught) == {"content_format": "must be TEXT, HTML or XML, is 99"}


@pytest.mark.parametrize("number", [pb.CONTENT_FORMAT_HTML, pb.CONTENT_FORMAT_XML])
async def test_contents_with_tags_have_no_token_details(resolve: Resolve, number: pb.ContentFormat.ValueType) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await read_unary(unary(content_format=number, token_details=True), resolve)
    assert set(faults(caught)) == {"token_details"}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ('<p class="navigation"><b>首页</b>&nbsp;</p>', ["首页"]),
        ("<script>if (a < b) return</script>首页<style>p { color: red }", ["首页"]),
        ("a < b 首页", ["a", "<", "b", "首页"]),
    ],
)
async def test_tags_do_not_tell_the_language(served_model: ServedModel, content: str, shown: list[str]) -> None:
    seen: list[str] = []

    async def resolve(*, texts: Iterable[str], **_: object) -> Route:
        seen.append(" ".join(texts))
        return Route(model=served_model, target_language="en")

    for content_format in (pb.CONTENT_FORMAT_HTML, pb.CONTENT_FORMAT_TEXT):
        await read_unary(unary([content], content_format=content_format), resolve)
    assert seen[0].split() == shown
    assert seen[1] == content
