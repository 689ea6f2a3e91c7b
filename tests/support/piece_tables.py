"""Tables that give the pieces of SentencePiece models ids of their own, as Marian's do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from sentencepiece import SentencePieceProcessor

SPECIAL = ("</s>", "<unk>", "<pad>")
EOS_ID, UNK_ID, PAD_ID = 0, 1, 2


def pieces_of(processor: SentencePieceProcessor) -> list[str]:
    """The pieces that text is made of."""
    ids = range(processor.vocab_size())
    return [processor.id_to_piece(i) for i in ids if not (processor.is_control(i) or processor.is_unknown(i))]


def joint_table(*processors: SentencePieceProcessor, more: Sequence[str] = ()) -> list[str]:
    """Special pieces, then those of all models in an order of its own, more that no model has, and two languages."""
    pieces = dict.fromkeys(itertools.chain.from_iterable(map(pieces_of, processors)))
    return [*SPECIAL, *random.Random(1).sample(list(pieces), len(pieces)), *more, ">>fra<<", ">>deu<<"]
