"""Make of what a search finds what callers get."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis, Trace
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.text.offsets import Span
from xuanzang.server.engine.types import FinishReason, Hypothesis, TokenDetail


def render(hypothesis: TargetHypothesis, codec: TextCodec, *, spans: Sequence[Span], cut: FinishReason) -> Hypothesis:
    """Make a hypothesis for callers.

    Args:
        hypothesis: As ids.
        codec: Of the model.
        spans: Characters of each source token; empty if nothing is to be told of the target tokens.
        cut: Why it ended, if the model did not end it.

    Returns:
        The hypothesis as text.
    """
    return Hypothesis(
        text=codec.decode(hypothesis.target_ids),
        score=hypothesis.score,
        token_count=hypothesis.token_count,
        finish_reason=FinishReason.END_OF_SENTENCE if hypothesis.finished else cut,
        tokens=_token_details(hypothesis, hypothesis.trace, codec, spans) if hypothesis.trace and spans else (),
    )


def _token_details(
    hypothesis: TargetHypothesis, trace: Trace, codec: TextCodec, spans: Sequence[Span]
) -> tuple[TokenDetail, ...]:
    texts = codec.token_texts(hypothesis.target_ids)
    if hypothesis.finished:
        texts.append("")
    scores, alignment, _ = trace
    return tuple(
        TokenDetail(text=text, score=score, source_start=spans[source][0], source_end=spans[source][1])
        for text, score, source in zip(texts, scores, alignment, strict=True)
    )
