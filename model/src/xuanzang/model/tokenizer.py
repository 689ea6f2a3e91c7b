"""Tokenisers: text to subword ids and back, by SentencePiece."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import sentencepiece

Normalization = Literal["none", "nfkc", "moses"]

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3

# SentencePiece's sign for a space.
_SPACE = "\u2581"


def normalize(text: str, form: Normalization, language: str = "") -> str:
    """Bring text to the form that the model was trained on.

    Args:
        form: "nfkc" folds full-width letters, half-width kana and other compatibility forms; "moses" makes punctuation
            plain, as Moses' script does; "none" changes nothing.
        language: BCP-47 code of the text's language; only "moses" heeds it.
    """
    if form == "moses":
        return _punctuation(language.lower().partition("-")[0])(text)
    return unicodedata.normalize("NFKC", text) if form == "nfkc" else text


@cache
def _punctuation(language: str) -> Callable[[str], str]:
    from sacremoses import MosesPunctNormalizer  # noqa: PLC0415 - an extra, and slow to import

    normalizer: Callable[[str], str] = MosesPunctNormalizer(language).normalize
    return normalizer


class Tokenizer:
    """A SentencePiece model. Bytes stand in for characters that it has not seen, so text survives the round trip.

    One character does not: "▁" (U+2581), SentencePiece's mark of spaces, comes back as a space.
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


class TableTokenizer(Tokenizer):
    """A SentencePiece model whose pieces have the ids of a table; what the table lacks is unknown."""

    def __init__(
        self,
        path: Path,
        table: Sequence[str],
        *,
        unk_id: int,
        eos_id: int,
        pad_id: int,
        silent_ids: Sequence[int] = (),
    ) -> None:
        """Load a model file.

        Args:
            table: All pieces of the vocabulary, by id.
            unk_id: Id of pieces outside the table.
            eos_id: Id that ends every sentence.
            pad_id: Id that fills sentences.
            silent_ids: Other ids that are no text: none is encoded to them, and they are decoded to nothing.

        Raises:
            OSError: The file is missing or not a SentencePiece model.
        """
        super().__init__(path)
        self._table, reserved = tuple(table), {*silent_ids}
        self._ids = {piece: number for number, piece in enumerate(table) if number not in reserved}
        self._unk_id, self._eos_id = unk_id, eos_id
        self._silent_ids = {eos_id, pad_id, *silent_ids}

    def __len__(self) -> int:
        """Return the number of pieces of the table."""
        return len(self._table)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, eos appended."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, eos appended to each."""
        return [
            [*(self._ids.get(piece, self._unk_id) for piece in pieces), self._eos_id]
            for pieces in self._processor.encode(list(texts), out_type=str)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; eos and pad count as nothing."""
        unknown = self._processor.id_to_piece(self._processor.unk_id())
        pieces = [unknown if i == self._unk_id else self._table[i] for i in ids if i not in self._silent_ids]
        # Pieces that only the table has come back from SentencePiece unchanged.
        return str(self._processor.decode_pieces(pieces)).replace(_SPACE, " ").strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id, such as "▁cat"."""
        return [self._table[i] for i in ids]


def read_table(path: Path) -> list[str]:
    """Read a table for `TableTokenizer`: a JSON array of pieces.

    Raises:
        OSError: The file is missing.
        ValueError: It holds something else, or a piece twice.
    """
    table = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(table, list) or not all(isinstance(piece, str) for piece in table):
        raise ValueError(f"{path} is not a JSON array of pieces")
    if len(set(table)) < len(table):
        raise ValueError(f"{path} names a piece twice")
    return table


def write_table(path: Path, table: Sequence[str]) -> None:
    """Write a table for `read_table`."""
    path.write_text(json.dumps(list(table), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
