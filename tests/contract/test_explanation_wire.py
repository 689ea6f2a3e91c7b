"""Explanations on the wire: numbers and types that stay, and bytes written by hand from the rules of the encoding."""

from __future__ import annotations

from typing import Any

import pytest

from xuanzang.translation.v1 import explanation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2

NUMBERS = {
    "Explanation": (
        *("source_tokens", "target_tokens", "attention", "search_steps", "omitted_steps", "searches"),
        *("no_repeat_ngram_size", "max_target_length"),
    ),
    "SourceToken": ("piece", "id", "start", "end"),
    "TargetToken": ("piece", "id", "text", "score", "source_token", "alternatives", "forced", "candidate"),
    "TokenAlternative": ("piece", "id", "score"),
    "Attention": ("kind", "layer", "head", "rows", "columns", "weights"),
    "SearchStep": ("candidates", "omitted_candidates"),
    "SearchCandidate": ("parent", "piece", "id", "score", "fate", "reason", "final_score", "rank"),
}
VALUES = {
    "AttentionKind": ("UNSPECIFIED", "CROSS", "ENCODER", "DECODER"),
    "CandidateFate": ("UNSPECIFIED", "KEPT", "PRUNED", "FINISHED"),
    "CandidateReason": (
        *("UNSPECIFIED", "END_OF_SENTENCE", "MAX_LENGTH", "OUTSIDE_BEAM", "END_OUTSIDE_BEAM", "SEARCH_OVER", "FORCED"),
        *("REPEATED_NGRAM", "SUPPRESSED", "TOO_SHORT"),
    ),
}
GOLDENS = [
    (pb.SourceToken(piece="a", id=3, start=1, end=2), "0a0161 1003 1801 2002"),
    (
        pb.TargetToken(
            piece="a",
            id=3,
            text="b",
            score=-0.5,
            source_token=1,
            alternatives=[pb.TokenAlternative(piece="c", id=4, score=-2)],
            forced=True,
            candidate=2,
        ),
        "0a0161 1003 1a0162 25000000bf 2801 320a 0a0163 1004 1d000000c0 3801 4002",
    ),
    (
        pb.Attention(kind=pb.ATTENTION_KIND_DECODER, layer=1, head=0, rows=1, columns=2, weights=[0.5, 0.5]),
        "0803 1001 1800 2001 2802 3208 0000003f 0000003f",
    ),
    # The first head is not the mean of all.
    (pb.Attention(kind=pb.ATTENTION_KIND_CROSS), "0801"),
    (
        pb.SearchStep(
            candidates=[
                pb.SearchCandidate(
                    parent=0,
                    piece="a",
                    id=3,
                    score=-0.5,
                    fate=pb.CANDIDATE_FATE_FINISHED,
                    reason=pb.CANDIDATE_REASON_END_OF_SENTENCE,
                    final_score=-2,
                    rank=1,
                )
            ],
            omitted_candidates=2,
        ),
        "0a17 0800 120161 1803 25000000bf 2803 3001 3d000000c0 4001 1002",
    ),
    (
        translation_pb2.ExplainTranslationRequest(
            content="a",
            settings=translation_pb2.TranslationSettings(model="m"),
            attention_kinds=[pb.ATTENTION_KIND_CROSS, pb.ATTENTION_KIND_ENCODER],
            attention_layers=[0, 5],
            attention_heads=True,
        ),
        "0a0161 1203 1a016d 1a020102 22020005 2801",
    ),
    (
        translation_pb2.ExplainTranslationResponse(
            explanation=pb.Explanation(omitted_steps=1, searches=2, no_repeat_ngram_size=3, max_target_length=300),
            model="m",
            model_version="1",
        ),
        "1209 2801 3002 3803 40ac02 1a016d 220131",
    ),
]


def test_fields_keep_their_numbers() -> None:
    messages = pb.DESCRIPTOR.message_types_by_name
    now = {name: {field.name: field.number for field in each.fields} for name, each in messages.items()}
    assert now == {name: {field: number for number, field in enumerate(fields, 1)} for name, fields in NUMBERS.items()}


def test_values_of_enumerations_keep_their_numbers() -> None:
    enumerations = pb.DESCRIPTOR.enum_types_by_name
    now = {name: {value.name: value.number for value in each.values} for name, each in enumerations.items()}
    prefixes = {name: "".join(f"_{c}" if c.isupper() else c for c in name).strip("_").upper() for name in VALUES}
    expected = {name: {f"{prefixes[name]}_{value}": n for n, value in enumerate(VALUES[name])} for name in VALUES}
    assert now == expected


@pytest.mark.parametrize(("message", "golden"), GOLDENS, ids=lambda value: type(value).__name__)
def test_messages_are_written_and_read_byte_for_byte(message: Any, golden: Any) -> None:
    wire = bytes.fromhex(golden)
    assert message.SerializeToString(deterministic=True) == wire
    assert type(message).FromString(wire) == message
