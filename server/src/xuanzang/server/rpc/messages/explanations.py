"""Messages of explanations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xuanzang.server.engine.explanation import types
from xuanzang.translation.v1 import explanation_pb2 as pb

_KINDS: Mapping[types.AttentionKind, pb.AttentionKind.ValueType] = MappingProxyType(
    {kind: pb.AttentionKind.Value(f"ATTENTION_KIND_{kind.name}") for kind in types.AttentionKind}
)
_FATES: Mapping[types.CandidateFate, pb.CandidateFate.ValueType] = MappingProxyType(
    {fate: pb.CandidateFate.Value(f"CANDIDATE_FATE_{fate.name}") for fate in types.CandidateFate}
)
_REASONS: Mapping[types.CandidateReason, pb.CandidateReason.ValueType] = MappingProxyType(
    {reason: pb.CandidateReason.Value(f"CANDIDATE_REASON_{reason.name}") for reason in types.CandidateReason}
)


def explanation_message(explanation: types.Explanation) -> pb.Explanation:
    """Return the message of an explanation."""
    return pb.Explanation(
        source_tokens=map(_source_token, explanation.source_tokens),
        target_tokens=map(_target_token, explanation.target_tokens),
        attention=map(_attention, explanation.attention),
        search_steps=map(_step, explanation.steps),
        omitted_steps=explanation.omitted_steps,
        searches=explanation.searches,
        no_repeat_ngram_size=explanation.no_repeat_ngram_size,
        max_target_length=explanation.max_target_length,
    )


def _source_token(token: types.SourceToken) -> pb.SourceToken:
    return pb.SourceToken(piece=token.piece, id=token.token_id, start=token.start, end=token.end)


def _target_token(token: types.TargetToken) -> pb.TargetToken:
    return pb.TargetToken(
        piece=token.piece,
        id=token.token_id,
        text=token.text,
        score=token.score,
        source_token=token.source_token,
        alternatives=(
            pb.TokenAlternative(piece=each.piece, id=each.token_id, score=each.score) for each in token.alternatives
        ),
        forced=token.forced,
        candidate=token.candidate,
    )


def _attention(attention: types.Attention) -> pb.Attention:
    rows, columns = attention.weights.shape
    return pb.Attention(
        kind=_KINDS[attention.kind],
        layer=attention.layer,
        head=attention.head,
        rows=rows,
        columns=columns,
        weights=attention.weights.ravel().tolist(),
    )


def _step(step: types.TreeStep) -> pb.SearchStep:
    return pb.SearchStep(candidates=map(_candidate, step.candidates), omitted_candidates=step.omitted)


def _candidate(candidate: types.Candidate) -> pb.SearchCandidate:
    return pb.SearchCandidate(
        parent=candidate.parent,
        piece=candidate.piece,
        id=candidate.token_id,
        score=candidate.score,
        fate=_FATES[candidate.fate],
        reason=_REASONS[candidate.reason] if candidate.reason else pb.CANDIDATE_REASON_UNSPECIFIED,
        final_score=candidate.final_score,
        rank=candidate.rank,
    )
