"""Requests for explanations, and the reading of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from tests.unit.client.conftest import Script

from xuanzang.client import (
    AttentionKind,
    CandidateFate,
    CandidateReason,
    InvalidRequestError,
    ServerFaultError,
    TranslationClient,
)
from xuanzang.client._commands.explain import lines
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

# Numbers in place of names are those of a later version.
ANSWER = text_format.Parse(
    """
    source_tokens {piece: "▁猫" id: 7 start: 0 end: 1}
    target_tokens {
      piece: "▁cat" id: 8 text: "cat" score: -0.5
      alternatives {piece: "▁cat" id: 8 score: -0.5}
      alternatives {piece: "▁cats" id: 9 score: -1.5}
    }
    attention {kind: ATTENTION_KIND_CROSS rows: 1 columns: 1 weights: 1}
    attention {kind: 9 head: 0 rows: 2 columns: 2 weights: [1, 0, 0.25, 0.75]}
    search_steps {
      candidates {
        piece: "▁cat" id: 8 score: -0.5 fate: CANDIDATE_FATE_FINISHED reason: CANDIDATE_REASON_MAX_LENGTH
        final_score: -0.5 rank: 1
      }
      candidates {piece: "</s>" id: 2 fate: 2 reason: 99}
      omitted_candidates: 3
    }
    omitted_steps: 4
    searches: 2
    """,
    explanation_pb2.Explanation(),
)


@pytest.fixture
def explaining(script: Script) -> Script:
    script.explanation.explanation.CopyFrom(ANSWER)
    return script


def test_arguments_become_the_request(script: Script) -> None:
    with TranslationClient(script.address) as client:
        kinds: list[Any] = [AttentionKind.DECODER, "cross"]
        client.explain(
            "猫",
            source_language="zh",
            beam_size=3,
            suppressed_texts=["a"],
            attention_kinds=kinds,
            attention_layers=[2],
            attention_heads=True,
        )
    assert script.requests == [
        pb.ExplainTranslationRequest(
            content="猫",
            attention_kinds=[explanation_pb2.ATTENTION_KIND_DECODER, explanation_pb2.ATTENTION_KIND_CROSS],
            attention_layers=[2],
            attention_heads=True,
            settings=pb.TranslationSettings(
                source_language_code="zh", options=pb.DecodingOptions(beam_size=3, suppressed_texts=["a"])
            ),
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sampling": None}, TypeError, "no such option of an explanation: sampling"),
        ({"attention_kinds": "cross"}, TypeError, "a sequence of names"),
        ({"attention_kinds": ["self"]}, InvalidRequestError, "none of cross, encoder, decoder"),
        ({"attention_layers": [2**40]}, InvalidRequestError, "attention_layers is out of range"),
        ({"text": "\ud800"}, InvalidRequestError, "content is no valid Unicode text"),
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_sent_is_refused(script: Script, arguments: Any, error: Any, message: str) -> None:
    with TranslationClient(script.address) as client, pytest.raises(error, match=message):
        client.explain(**{"text": "猫", **arguments})
    assert not script.requests


def test_values_that_this_version_does_not_know_are_unspecified(explaining: Script) -> None:
    with TranslationClient(explaining.address) as client:
        explained = client.explain("猫")
    assert [each.kind for each in explained.attention] == [AttentionKind.CROSS, AttentionKind.UNSPECIFIED]
    finished, pruned = explained.search_steps[0].candidates
    assert (finished.fate, pruned.fate) == (CandidateFate.FINISHED, CandidateFate.PRUNED)
    assert (finished.score, pruned.score, pruned.reason) == (-0.5, None, CandidateReason.UNSPECIFIED)
    assert explained.attention[1].weights == ((1.0, 0.0), (0.25, 0.75))


def test_missing_weights_are_a_fault_of_the_server(explaining: Script) -> None:
    del explaining.explanation.explanation.attention[1].weights[-1]
    with TranslationClient(explaining.address) as client, pytest.raises(ServerFaultError, match="number of weights"):
        client.explain("猫")


def test_an_explanation_is_drawn_in_columns_of_the_terminal(explaining: Script) -> None:
    with TranslationClient(explaining.address) as client:
        drawn = list(lines(client.explain("猫")))
    assert drawn == [
        "A",
        "zh-en/1, score 0.0000",
        "",
        "   TOKEN  LOG P   ATTENDS TO  INSTEAD",
        "1  ▁cat   -0.500  ▁猫         ▁cats -1.50",
        "",
        "step 1",
        "    FROM  TOKEN  SUM     FATE",
        "0*        ▁cat   -0.500  finished: max length, -0.5000, rank 1",
        "1         </s>           pruned",
        "and 3 more",
        "",
        "and 4 more steps",
        "",
        "searched again, because the first translation repeated itself",
    ]
