from __future__ import annotations

import pytest

from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.types import FinishReason, Hypothesis, Runtime, ServedModel
from xuanzang.server.rpc.messages import responses
from xuanzang.server.rpc.messages.responses import Provenance
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
def test_every_finish_reason_has_its_name_on_the_wire(
    call_of_one_text: Call, provenance: Provenance, reason: FinishReason
) -> None:
    hypothesis = Hypothesis(text="x", score=0.0, token_count=1, finish_reason=reason)
    response = responses.unary_response(call_of_one_text, [[hypothesis]], provenance)
    sent = response.translations[0].hypotheses[0].finish_reason
    assert pb.FinishReason.Name(sent) == f"FINISH_REASON_{reason.name}"


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
