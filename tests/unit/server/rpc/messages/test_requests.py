from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.access.callers import Resolve
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.glossaries import GlossaryFolder
from xuanzang.server.engine.types import DecodingOptions, Route, SamplingOptions, ServedModel
from xuanzang.server.rpc.messages import requests
from xuanzang.server.rpc.messages import requests as options
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
    assert len((await read_unary(pb.TranslateTextRequest(contents=["a"] * 1024), resolve)).texts) == 1024


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


def test_faults_of_a_single_text_have_the_fields_of_its_message_and_their_kind() -> None:
    faults = {"contents[0]": "is in fr", "options.num_hypotheses": "must be 1, contents[0] has 2 sentences"}
    violations = [FieldViolation(field=field, description=description) for field, description in faults.items()]
    error = UnservedLanguageError(violations, detected=["fr"], served=["zh"])
    renamed = requests.as_sent(requests.for_single_text(error))
    assert isinstance(renamed, UnservedLanguageError)
    assert (renamed.detected, renamed.served) == (("fr",), ("zh",))
    assert {each.field: each.description for each in renamed.violations} == {
        "content": "is in fr",
        "settings.options.num_hypotheses": "must be 1, content has 2 sentences",
    }


def test_faults_of_settings_have_their_path_in_the_request_and_others_keep_their_names() -> None:
    def sent(field: str) -> list[str]:
        error = requests.as_sent(InvalidInputError([FieldViolation(field=field, description="x")]))
        return [fault.field for fault in error.violations]

    for message, path in ((pb.TranslationSettings, ""), (pb.DecodingOptions, "options.")):
        for field in message.DESCRIPTOR.fields:
            assert sent(f"{path}{field.name}") == [f"settings.{path}{field.name}"]
    for beside in ("contents[3]", "content", "id", "attention_layers[0]"):
        assert sent(beside) == [beside]


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


SWITCHES = {"return_alternatives", "token_details"}
"""Options of the engine that are settings beside the options on the wire."""


def settings_of(chosen: dict[str, Any]) -> pb.TranslationSettings:
    """Return settings with options of the engine."""
    switches = {name: value for name, value in chosen.items() if name in SWITCHES}
    searched = {name: value for name, value in chosen.items() if name not in SWITCHES}
    return pb.TranslationSettings(options=pb.DecodingOptions(**searched), **switches)


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads the options of requests for one model."""

    model: ServedModel

    def accepted(self, **chosen: Any) -> DecodingOptions:
        """Return the options that the engine gets."""
        assert self.faults(**chosen) == {}
        return options.with_defaults(settings_of(chosen), self.model)

    def faults(self, **chosen: Any) -> dict[str, str]:
        """Return the descriptions of the violations by field."""
        message = settings_of(chosen)
        completed = options.with_defaults(message, self.model)
        found = [*options.range_violations(message.options), *options.mutual_violations(completed, self.model)]
        assert len({fault.field for fault in found}) == len(found)
        return {fault.field: fault.description for fault in found}


@pytest.fixture
def reader(served_model: ServedModel) -> Reader:
    return Reader(served_model)


def test_unset_options_are_the_models_defaults(reader: Reader) -> None:
    assert reader.accepted() == reader.model.default_options


def test_set_options_override_defaults_even_if_they_are_zero(reader: Reader) -> None:
    chosen: dict[str, Any] = {
        "beam_size": 8,
        "num_hypotheses": 8,
        "length_penalty": 0.0,
        "min_target_length": 0,
        "max_target_length": 256,
        "coverage_penalty": 0.5,
        "repetition_penalty": 2.0,
        "no_repeat_ngram_size": 3,
        "target_prefix": "I",
        "suppressed_texts": ("cat", "dog"),
        "return_alternatives": False,
        "token_details": True,
        "partial_on_deadline": True,
        "refuse_long_sentences": True,
    }
    assert reader.accepted(**chosen) == DecodingOptions(**chosen)


def test_every_option_of_the_engine_is_a_field_on_the_wire() -> None:
    for ours, wire, beside in (
        (DecodingOptions, pb.DecodingOptions, SWITCHES | {"quality"}),
        (SamplingOptions, pb.SamplingOptions, set()),
    ):
        assert {field.name for field in wire.DESCRIPTOR.fields} == {
            field.name for field in dataclasses.fields(ours)
        } - beside


@pytest.mark.parametrize(
    ("option", "values", "limit"),
    [
        ("beam_size", (0, 17), "1 to 16"),
        ("num_hypotheses", (0, 17), "1 to 16"),
        ("num_hypotheses", (5,), "at most beam_size, 4"),
        ("length_penalty", (-0.5, 10.5, math.nan, math.inf), "0 to 10"),
        ("min_target_length", (-1,), "at least 0"),
        ("min_target_length", (257,), "at most 256"),
        ("max_target_length", (0,), "at least 1"),
        ("max_target_length", (257,), "at most 256"),
        ("coverage_penalty", (-0.5, 10.5), "0 to 10"),
        ("repetition_penalty", (0.0, 10.5), "0.1 to 10"),
        ("no_repeat_ngram_size", (-1, 17), "0 to 16"),
        ("sampling.top_k", (0, 257), "1 to 256"),
        ("sampling.top_p", (0.0, 1.5, math.nan), "above 0 and at most 1"),
        ("sampling.temperature", (0.0, 10.5), "above 0 and at most 10"),
        ("sampling.seed", (-1,), "at least 0"),
    ],
)
def test_options_out_of_range_are_refused(reader: Reader, option: str, values: tuple[Any, ...], limit: str) -> None:
    *message, name = option.split(".")
    for value in values:
        chosen = {"sampling": pb.SamplingOptions(**{name: value})} if message else {name: value}
        description = reader.faults(**chosen)[f"options.{option}"]
        assert f"must be {limit}" in description
        assert f"is {value:g}" in description


@pytest.mark.parametrize(
    "chosen",
    [
        {"beam_size": 16, "num_hypotheses": 16},
        {"beam_size": 1},
        {"length_penalty": 10.0},
        {"coverage_penalty": 10.0},
        {"repetition_penalty": 10.0},
        {"no_repeat_ngram_size": 16},
        {"target_prefix": "é" * 2000},
        {"suppressed_texts": ("é" * 100,) * 64},
    ],
)
def test_options_at_their_limits_are_accepted(reader: Reader, chosen: dict[str, Any]) -> None:
    accepted = reader.accepted(**chosen)
    assert {name: getattr(accepted, name) for name in chosen} == chosen
    # As the wire rounds it.
    assert reader.accepted(repetition_penalty=0.1).repetition_penalty == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("chosen", "field", "description"),
    [
        ({"target_prefix": "é" * 2001}, "target_prefix", "must have at most 2000 characters, has 2001"),
        ({"suppressed_texts": ["a"] * 65}, "suppressed_texts", "must have at most 64 elements, has 65"),
        ({"suppressed_texts": ["a", ""]}, "suppressed_texts[1]", "must have 1 to 100 characters, has 0"),
        ({"suppressed_texts": ["a", " \n"]}, "suppressed_texts[1]", "must not be only white space"),
        ({"suppressed_texts": ["é" * 101]}, "suppressed_texts[0]", "must have 1 to 100 characters, has 101"),
        ({"min_target_length": 6, "max_target_length": 5}, "min_target_length", "must be at most 5, is 6"),
        ({"sampling": {}, "beam_size": 2}, "beam_size", "must be 1 with sampling, is 2"),
    ],
)
def test_an_odd_option_is_refused_by_name(reader: Reader, chosen: dict[str, Any], field: str, description: str) -> None:
    assert reader.faults(**chosen) == {f"options.{field}": description}


def test_alternatives_are_not_drawn(reader: Reader) -> None:
    found = reader.faults(sampling=pb.SamplingOptions(), return_alternatives=True)
    assert found == {"return_alternatives": "must be false with sampling"}


def test_unset_sampling_options_draw_from_the_whole_distribution(reader: Reader) -> None:
    accepted = reader.accepted(sampling=pb.SamplingOptions(seed=0))
    assert accepted.beam_size == 1
    assert accepted.sampling == SamplingOptions(top_k=256, top_p=1.0, temperature=1.0, seed=0)
    narrow = pb.SamplingOptions(top_k=5, top_p=0.5, temperature=2, seed=7)
    expected = SamplingOptions(top_k=5, top_p=0.5, temperature=2.0, seed=7)
    assert reader.accepted(sampling=narrow).sampling == expected


def test_sampling_without_a_seed_gets_a_new_one_each_time(reader: Reader) -> None:
    seeds = {reader.accepted(sampling=pb.SamplingOptions()).sampling for _ in range(8)}
    assert len(seeds) > 1


@pytest.mark.parametrize("chosen", [{"sampling": pb.SamplingOptions()}, {"return_alternatives": True, "beam_size": 2}])
def test_draws_and_alternatives_may_outnumber_the_beam(reader: Reader, chosen: dict[str, Any]) -> None:
    assert reader.accepted(num_hypotheses=16, **chosen).num_hypotheses == 16


def test_a_narrow_beam_limits_the_default_number_of_hypotheses(served_model: ServedModel) -> None:
    default = dataclasses.replace(served_model.default_options, num_hypotheses=4)
    reader = Reader(dataclasses.replace(served_model, default_options=default))
    assert reader.accepted(beam_size=2).num_hypotheses == 2
    assert reader.accepted(sampling=pb.SamplingOptions()).num_hypotheses == 1
