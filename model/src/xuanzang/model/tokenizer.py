"""Text to subword ids and back, by SentencePiece."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import sentencepiece

Normalization = Literal["none", "nfkc"]

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3


def normalize(text: str, form: Normalization) -> str:
    """Bring text to the form that the model was trained on.

    Args:
        text: Any text.
        form: "nfkc" folds full-width letters, half-width kana and other compatibility forms; "none" changes nothing.
    """
    return unicodedata.normalize("NFKC", text) if form == "nfkc" else text


class Tokenizer:
    """A SentencePiece model. Bytes stand in for characters that it has not seen, so text survives the round trip.

    One character does not: "▁" (U+2581), with which SentencePiece marks spaces, comes back as a space.
    """

    def __init__(self, path: Path) -> None:
        """Load a model file.

        Raises:
            OSError: The file is missing or not a SentencePiece model.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except RuntimeError as error:
            raise OSError(f"{path} is not a SentencePiece model: {error}") from error

    def __len__(self) -> int:
        """Return the number of pieces."""
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, eos appended."""
        return [*self._processor.encode(text), EOS_ID]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, eos appended to each."""
        return [[*ids, EOS_ID] for ids in self._processor.encode(list(texts))]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; bos, eos and pad count as nothing."""
        return str(self._processor.decode(list(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id, such as "▁cat"."""
        return [str(self._processor.id_to_piece(i)) for i in ids]
