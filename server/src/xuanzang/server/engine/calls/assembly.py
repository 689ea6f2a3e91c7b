"""Join the translated sentences of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xuanzang.server.engine.text.codec import Piece, TextCodec
from xuanzang.server.engine.types import FinishReason, Hypothesis


def assemble(pieces: Sequence[Piece], translated: Iterator[Sequence[Hypothesis]], codec: TextCodec) -> list[Hypothesis]:
    """Make the hypotheses of a text from those of its sentences.

    Args:
        pieces: Of the text.
        translated: Hypotheses of each of its sentences, best first; as many are taken as there are sentences.
        codec: Of the model.

    Returns:
        Of the text, best first. A text of several sentences has as many hypotheses as each of them: one.
    """
    if len(pieces) == 1 and pieces[0].source_ids:
        # Most texts are one sentence, with nothing to join.
        return list(next(translated))
    choices = [next(translated) if piece.source_ids else [_copied(piece.text)] for piece in pieces]
    width = max((len(choice) for choice in choices), default=0)
    if not any(piece.source_ids for piece in pieces):
        return [_copied("".join(piece.text for piece in pieces))]
    # What was copied is the same in every hypothesis.
    return [_join([choice[min(rank, len(choice) - 1)] for choice in choices], codec) for rank in range(width)]


def _copied(text: str) -> Hypothesis:
    return Hypothesis(text=text, score=0.0, token_count=0, finish_reason=FinishReason.COPIED)


def _join(parts: Sequence[Hypothesis], codec: TextCodec) -> Hypothesis:
    sentences = [part for part in parts if part.finish_reason is not FinishReason.COPIED]
    token_count = sum(sentence.token_count for sentence in sentences)
    weighted = sum(sentence.score * sentence.token_count for sentence in sentences)
    unusual = (s.finish_reason for s in sentences if s.finish_reason is not FinishReason.END_OF_SENTENCE)
    joiner = codec.joiner()
    return Hypothesis(
        text="".join(joiner.add(part.text) for part in parts),
        score=sentences[0].score if len(sentences) == 1 else weighted / token_count,
        token_count=token_count,
        finish_reason=next(unusual, FinishReason.END_OF_SENTENCE),
        tokens=tuple(token for sentence in sentences for token in sentence.tokens),
    )
