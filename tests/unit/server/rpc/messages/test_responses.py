from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.types import (
    DecodingOptions,
    FinishReason,
    Hypothesis,
    Runtime,
    SamplingOptions,
    ServedModel,
)
from xuanzang.server.rpc.messages import responses
from xuanzang.server.rpc.messages.requests import with_defaults
from xuanzang.server.rpc.messages.responses import Provenance, effective_settings
from xuanzang.text.types import TokenDetail
from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.fixture
def call_of_one_text(served_model: ServedModel) -> Call:
    return Call(
        texts=("a",),
        model=served_model,
        target_language="en",
        options=served_model.default_options,
        return_scores=False,
    )


@pytest.fixture
def provenance(call_of_one_text: Call) -> Provenance:
    runtime = Runtime(execution_provider="cpu", kernels="avx2", kernels_reason="", onnxruntime_version="1.23.0")
    return Provenance(call_of_one_text, CallRecord(), runtime, method="TranslateText")


@pytest.mark.parametrize("reason", list(FinishReason))
def test_every_finish_reason_has_its_name(call_of_one_text: Call, provenance: Provenance, reason: FinishReason) -> None:
    hypothesis = Hypothesis(text="x", score=0.0, token_count=1, finish_reason=reason)
    response = responses.unary_response(call_of_one_text, [[hypothesis]], provenance)
    [sent] = response.translations[0].hypotheses
    assert pb.FinishReason.Name(sent.finish_reason) == f"FINISH_REASON_{reason.name}"
    assert not sent.HasField("score"), "nobody asked for it"


def test_tokens_carry_their_scores_and_source_spans(call_of_one_text: Call, provenance: Provenance) -> None:
    tokens = (
        TokenDetail(text="I", score=-0.5, source_start=0, source_end=1),
        TokenDetail(text="", score=-0.25, source_start=4, source_end=4),
    )
    reason = FinishReason.END_OF_SENTENCE
    hypothesis = Hypothesis(text="I", score=0.0, token_count=2, finish_reason=reason, tokens=tokens)
    [translation] = responses.unary_response(call_of_one_text, [[hypothesis]], provenance).translations
    assert list(translation.hypotheses[0].tokens) == [
        pb.TokenDetail(text="I", score=-0.5, source_start=0, source_end=1),
        pb.TokenDetail(text="", score=-0.25, source_start=4, source_end=4),
    ]


floats = st.floats(0.5, 1, width=32)
sampling = st.builds(
    SamplingOptions, top_k=st.integers(1, 256), top_p=floats, temperature=floats, seed=st.integers(0, 2**31 - 1)
)
choices = st.builds(
    DecodingOptions,
    beam_size=st.integers(1, 16),
    num_hypotheses=st.integers(1, 16),
    length_penalty=floats,
    min_target_length=st.integers(0, 100),
    max_target_length=st.none() | st.integers(100, 256),
    coverage_penalty=floats,
    repetition_penalty=floats,
    no_repeat_ngram_size=st.integers(0, 16),
    sampling=st.none() | sampling,
    return_alternatives=st.booleans(),
    token_details=st.booleans(),
    partial_on_deadline=st.booleans(),
    refuse_long_sentences=st.booleans(),
    quality=st.booleans(),
)


def request_of(model: ServedModel, options: DecodingOptions) -> Call:
    """Return a request for scores and provenance."""
    return Call(
        texts=("a",), model=model, target_language="en", options=options, return_scores=True, return_provenance=True
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices)
def test_a_request_with_the_options_in_effect_has_the_same(served_model: ServedModel, options: DecodingOptions) -> None:
    message = effective_settings(request_of(served_model, options))
    assert with_defaults(message, served_model) == options
    assert (message.target_language_code, message.return_scores, message.return_provenance) == ("en", True, True)


def test_texts_among_the_options_are_not_repeated(served_model: ServedModel) -> None:
    default = served_model.default_options
    options = dataclasses.replace(default, target_prefix="I", suppressed_texts=("cat",))
    expected = effective_settings(request_of(served_model, default))
    assert effective_settings(request_of(served_model, options)) == expected


def requests(**options: Any) -> list[tuple[str, Any]]:
    """Return a method for each kind of call, with a request."""
    asked = pb.TranslationSettings(options=pb.DecodingOptions(**options), return_provenance=True)
    return [
        ("TranslateText", pb.TranslateTextRequest(contents=["a"], settings=asked)),
        ("StreamTranslateText", [pb.StreamTranslateTextRequest(content="a", settings=asked)]),
        ("TranslateTextProgressively", pb.TranslateTextProgressivelyRequest(content="a", settings=asked)),
    ]


async def translation_of(call: Any) -> Any:
    """Return the only translation of any call."""
    if hasattr(call, "__aiter__"):
        *_, last = [answer async for answer in call]
        return last.translation
    [translation] = (await call).translations
    return translation


@pytest.mark.parametrize("kind", range(3))
async def test_every_method_says_what_an_answer_depends_on(serve: Any, kind: int) -> None:
    async with serve() as served:
        method, request = requests(beam_size=2)[kind]
        provenance = (await translation_of(getattr(served.stub, method)(request))).provenance
        _, request = requests(sampling=pb.SamplingOptions())[kind]
        drawn = (await translation_of(getattr(served.stub, method)(request))).provenance.settings.options.sampling
    assert provenance.method == method
    assert (provenance.model, provenance.model_version, provenance.precision) == ("tiny", "1", "float32")
    assert (provenance.manifest_sha256, provenance.settings.target_language_code) == ("0" * 64, "en")
    assert (provenance.execution_provider, provenance.kernels, provenance.kernels_reason) == ("cpu", "avx2", "")
    assert provenance.onnxruntime_version == "1.23.0"
    assert provenance.server_version
    assert (provenance.settings.options.beam_size, provenance.settings.options.length_penalty) == (2, 1.0)
    assert not provenance.settings.options.HasField("max_target_length")
    # A drawn seed is reported.
    assert drawn.HasField("seed")
    assert drawn.seed == served.engine.asked_for("options")[-1].sampling.seed


async def test_who_does_not_ask_for_provenance_gets_none(serve: Any) -> None:
    calls: list[tuple[str, Any]] = [
        ("TranslateText", pb.TranslateTextRequest(contents=["a"])),
        ("StreamTranslateText", [pb.StreamTranslateTextRequest(content="a")]),
        ("TranslateTextProgressively", pb.TranslateTextProgressivelyRequest(content="a")),
    ]
    async with serve() as served:
        for method, request in calls:
            assert not (await translation_of(getattr(served.stub, method)(request))).HasField("provenance")
