"""Requests for explanations, and their answers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeVar, Unpack

from xuanzang.client._errors import ServerFaultError, StatusCode
from xuanzang.client._messages.requests import explanation_options, invalid, require_known
from xuanzang.client._messages.responses import explained_translation
from xuanzang.client._values.explanations import (
    Attention,
    AttentionKind,
    CandidateFate,
    CandidateReason,
    ExplainOptions,
    Explanation,
    SearchCandidate,
    SearchStep,
    SourceToken,
    TargetToken,
    TokenAlternative,
)
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

Known = TypeVar("Known", bound=enum.Enum)


def explanation_request(
    text: str,
    *,
    attention_kinds: Sequence[AttentionKind | str],
    attention_layers: Sequence[int],
    attention_heads: bool,
    **options: Unpack[ExplainOptions],
) -> pb.ExplainTranslationRequest:
    """Build the request for an explanation.

    Raises:
        InvalidRequestError: A value cannot be written on the wire.
        TypeError: A value of the wrong type, or an unknown option.
    """
    if isinstance(attention_kinds, str):
        raise TypeError("attention_kinds is a sequence of kinds")
    require_known(options, ExplainOptions.__optional_keys__, kind="option of an explanation")
    request = explanation_options(text, **options)
    request.attention_kinds.extend(map(_kind, attention_kinds))
    try:
        request.attention_layers.extend(attention_layers)
    except ValueError as error:  # outside 32 bits; the server checks the range
        raise invalid("attention_layers", "is out of range") from error
    request.attention_heads = attention_heads
    return request


def _kind(kind: AttentionKind | str) -> explanation_pb2.AttentionKind.ValueType:
    known = {each.name.lower(): each for each in AttentionKind}
    found = kind if isinstance(kind, AttentionKind) else known.get(kind.lower())
    if found is None:
        raise invalid("attention_kinds", f"has {kind!r}, which is none of {', '.join(list(known)[1:])}")
    return explanation_pb2.AttentionKind.ValueType(found.value)


def explanation(response: pb.ExplainTranslationResponse) -> Explanation:
    """Read the answer to a request.

    Raises:
        ServerFaultError: There is no hypothesis, or weights are missing.
    """
    message = response.explanation
    return Explanation(
        translation=explained_translation(response),
        source_tokens=tuple(
            SourceToken(piece=each.piece, id=each.id, start=each.start, end=each.end) for each in message.source_tokens
        ),
        target_tokens=tuple(map(_target_token, message.target_tokens)),
        attention=tuple(map(_attention, message.attention)),
        search_steps=tuple(map(_step, message.search_steps)),
        omitted_steps=message.omitted_steps,
        searches=message.searches,
        no_repeat_ngram_size=message.no_repeat_ngram_size,
        max_target_length=message.max_target_length,
    )


def _target_token(message: explanation_pb2.TargetToken) -> TargetToken:
    return TargetToken(
        piece=message.piece,
        id=message.id,
        text=message.text,
        score=message.score,
        source_token=message.source_token,
        alternatives=tuple(
            TokenAlternative(piece=each.piece, id=each.id, score=each.score) for each in message.alternatives
        ),
        forced=message.forced,
        candidate=message.candidate,
    )


def _attention(message: explanation_pb2.Attention) -> Attention:
    weights, columns = tuple(message.weights), message.columns
    if len(weights) != message.rows * columns:
        message_text = "the server answered with another number of weights than rows and columns have"
        raise ServerFaultError(message_text, code=StatusCode.INTERNAL)
    return Attention(
        kind=_known(AttentionKind, message.kind),
        layer=message.layer,
        head=message.head if message.HasField("head") else None,
        weights=tuple(weights[row * columns : (row + 1) * columns] for row in range(message.rows)),
    )


def _step(message: explanation_pb2.SearchStep) -> SearchStep:
    return SearchStep(
        candidates=tuple(map(_candidate, message.candidates)), omitted_candidates=message.omitted_candidates
    )


def _candidate(message: explanation_pb2.SearchCandidate) -> SearchCandidate:
    return SearchCandidate(
        parent=message.parent if message.HasField("parent") else None,
        piece=message.piece,
        id=message.id,
        score=message.score if message.HasField("score") else None,
        fate=_known(CandidateFate, message.fate),
        reason=_known(CandidateReason, message.reason),
        final_score=message.final_score if message.HasField("final_score") else None,
        rank=message.rank if message.HasField("rank") else None,
    )


def _known(kind: type[Known], value: int) -> Known:
    """Return the value of an enumeration; UNSPECIFIED if this version does not know it."""
    try:
        return kind(value)
    except ValueError:
        return kind(0)
