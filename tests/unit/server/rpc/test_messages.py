from __future__ import annotations

from typing import Any

import pytest

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.types import FinishReason, Hypothesis, Route, ServedModel, TokenDetail
from xuanzang.server.rpc import messages
from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.fixture
def resolve(served_model: ServedModel) -> messages.Resolve:
    def find(*, model: str, source_language: str, target_language: str) -> Route:
        if source_language == "??":
            raise InvalidInputError([FieldViolation(field="source_language_code", description="must be BCP-47")])
        if model:
            raise ModelNotFoundError("no such model")
        return Route(model=served_model, target_language="en")

    return find


def read(resolve: messages.Resolve, **options: Any) -> messages.TranslationRequest:
    request = pb.TranslateTextRequest(contents=["a"], options=pb.DecodingOptions(**options))
    return messages.read_unary_request(request, resolve)


def faults(caught: pytest.ExceptionInfo[InvalidInputError]) -> dict[str, str]:
    return {fault.field: fault.description for fault in caught.value.violations}


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


def test_faults_in_a_lone_text_are_named_as_its_message_has_them() -> None:
    error = InvalidInputError(
        [
            FieldViolation(field="contents[0]", description="too long"),
            FieldViolation(field="options.num_hypotheses", description="must be 1, contents[0] has 2 sentences"),
        ]
    )
    assert messages.of_single_text(error).violations == (
        FieldViolation(field="content", description="too long"),
        FieldViolation(field="options.num_hypotheses", description="must be 1, content has 2 sentences"),
    )


@pytest.mark.parametrize("reason", list(FinishReason))
def test_every_finish_reason_has_its_name_on_the_wire(resolve: messages.Resolve, reason: FinishReason) -> None:
    hypothesis = Hypothesis(text="x", score=0.0, token_count=1, finish_reason=reason)
    response = messages.unary_response(read(resolve), [[hypothesis]])
    sent = response.translations[0].hypotheses[0].finish_reason
    assert pb.FinishReason.Name(sent) == f"FINISH_REASON_{reason.name}"


def test_tokens_carry_their_scores_and_places(resolve: messages.Resolve) -> None:
    tokens = (
        TokenDetail(text="I", score=-0.5, source_start=0, source_end=1),
        TokenDetail(text="", score=-0.25, source_start=4, source_end=4),
    )
    reason = FinishReason.END_OF_SENTENCE
    hypothesis = Hypothesis(text="I", score=0.0, token_count=2, finish_reason=reason, tokens=tokens)
    [translation] = messages.unary_response(read(resolve), [[hypothesis]]).translations
    assert list(translation.hypotheses[0].tokens) == [
        pb.TokenDetail(text="I", score=-0.5, source_start=0, source_end=1),
        pb.TokenDetail(text="", score=-0.25, source_start=4, source_end=4),
    ]
