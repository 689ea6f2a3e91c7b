from __future__ import annotations

import math
from typing import Any

import pytest

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.values import DecodingOptions, FinishReason, Hypothesis, ServedModel
from xuanzang.server.rpc import messages
from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.fixture
def resolve(served_model: ServedModel) -> messages.Resolve:
    def find(*, model: str, source_language: str, target_language: str) -> ServedModel:
        if source_language == "??":
            raise InvalidInputError([FieldViolation(field="source_language_code", description="must be BCP-47")])
        if model:
            raise ModelNotFoundError("no such model")
        return served_model

    return find


def read(resolve: messages.Resolve, **options: Any) -> messages.TranslationRequest:
    request = pb.TranslateTextRequest(contents=["a"], options=pb.DecodingOptions(**options))
    return messages.read_unary_request(request, resolve)


def faults(caught: pytest.ExceptionInfo[InvalidInputError]) -> dict[str, str]:
    return {fault.field: fault.description for fault in caught.value.violations}


def test_unset_options_are_the_models_defaults(resolve: messages.Resolve, served_model: ServedModel) -> None:
    assert read(resolve).options == served_model.default_options


def test_set_options_win_even_when_they_are_zero(resolve: messages.Resolve) -> None:
    request = read(
        resolve, beam_size=8, num_hypotheses=8, length_penalty=0.0, min_target_length=0, max_target_length=256
    )
    assert request.options == DecodingOptions(
        beam_size=8, num_hypotheses=8, length_penalty=0.0, min_target_length=0, max_target_length=256
    )


@pytest.mark.parametrize(
    ("option", "value", "limit"),
    [
        ("beam_size", 0, "1 to 16"),
        ("beam_size", 17, "1 to 16"),
        ("num_hypotheses", 0, "at least 1"),
        ("num_hypotheses", 5, "at most beam_size, 4"),
        ("length_penalty", -0.5, "0 to 10"),
        ("length_penalty", 10.5, "0 to 10"),
        ("length_penalty", math.nan, "0 to 10"),
        ("length_penalty", math.inf, "0 to 10"),
        ("min_target_length", -1, "at least 0"),
        ("min_target_length", 257, "at most 256"),
        ("max_target_length", 0, "at least 1"),
        ("max_target_length", 257, "at most 256"),
    ],
)
def test_an_option_outside_its_range_is_refused_with_its_limit(
    resolve: messages.Resolve, option: str, value: float, limit: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(resolve, **{option: value})
    assert f"must be {limit}" in faults(caught)[f"options.{option}"]
    assert f"is {value:g}" in faults(caught)[f"options.{option}"]


@pytest.mark.parametrize("options", [{"beam_size": 16}, {"beam_size": 1}, {"length_penalty": 10.0}])
def test_options_at_their_limits_are_accepted(resolve: messages.Resolve, options: dict[str, Any]) -> None:
    accepted = read(resolve, **options).options
    assert {name: getattr(accepted, name) for name in options} == options


def test_a_minimum_above_the_maximum_is_refused(resolve: messages.Resolve) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(resolve, min_target_length=6, max_target_length=5)
    assert faults(caught) == {"options.min_target_length": "must be at most 5, is 6"}


@pytest.mark.parametrize("count", [0, 1025])
def test_too_few_or_too_many_texts_are_refused(resolve: messages.Resolve, count: int) -> None:
    with pytest.raises(InvalidInputError) as caught:
        messages.read_unary_request(pb.TranslateTextRequest(contents=["a"] * count), resolve)
    assert faults(caught) == {"contents": f"must have 1 to 1024 elements, has {count}"}


def test_1024_texts_are_accepted(resolve: messages.Resolve) -> None:
    request = messages.read_unary_request(pb.TranslateTextRequest(contents=["a"] * 1024), resolve)
    assert len(request.texts) == 1024


def test_all_faults_are_named_at_once(resolve: messages.Resolve) -> None:
    options = pb.DecodingOptions(beam_size=0, length_penalty=11)
    with pytest.raises(InvalidInputError) as caught:
        messages.read_unary_request(pb.TranslateTextRequest(source_language_code="??", options=options), resolve)
    assert set(faults(caught)) == {
        "contents",
        "options.beam_size",
        "options.length_penalty",
        "source_language_code",
    }


def test_a_fault_of_the_request_comes_before_a_missing_model(resolve: messages.Resolve) -> None:
    with pytest.raises(InvalidInputError):
        messages.read_unary_request(pb.TranslateTextRequest(model="none"), resolve)
    with pytest.raises(ModelNotFoundError):
        messages.read_unary_request(pb.TranslateTextRequest(contents=["a"], model="none"), resolve)


def test_an_id_of_a_stream_is_limited_in_bytes(resolve: messages.Resolve) -> None:
    assert messages.read_stream_request(pb.StreamTranslateTextRequest(id="é" * 128), resolve).texts == ("",)
    with pytest.raises(InvalidInputError) as caught:
        messages.read_stream_request(pb.StreamTranslateTextRequest(id="é" * 129), resolve)
    assert faults(caught) == {"id": "must have at most 256 bytes, has 258"}


def test_faults_in_a_streams_text_are_named_as_its_message_has_them() -> None:
    error = InvalidInputError(
        [
            FieldViolation(field="contents[0]", description="too long"),
            FieldViolation(field="options.num_hypotheses", description="must be 1, contents[0] has 2 sentences"),
        ]
    )
    assert messages.of_stream(error).violations == (
        FieldViolation(field="content", description="too long"),
        FieldViolation(field="options.num_hypotheses", description="must be 1, content has 2 sentences"),
    )


@pytest.mark.parametrize("reason", list(FinishReason))
def test_every_finish_reason_has_its_name_on_the_wire(resolve: messages.Resolve, reason: FinishReason) -> None:
    hypothesis = Hypothesis(text="x", score=0.0, token_count=1, finish_reason=reason)
    response = messages.unary_response(read(resolve), [[hypothesis]])
    sent = response.translations[0].hypotheses[0].finish_reason
    assert pb.FinishReason.Name(sent) == f"FINISH_REASON_{reason.name}"
