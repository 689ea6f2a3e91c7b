"""Text to subword ids and back, by SentencePiece."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
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
    """A SentencePiece model. Bytes stand in for characters that it has not seen, so every text survives the round trip."""

    def __init__(self, path: Path) -> None:
        """Load a model file.

        Raises:
            OSError: The file is missing or not a SentencePiece model.
        """
        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))

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


def train_tokenizer(sentences: Iterable[str], output: Path, vocab_size: int, *, max_sentences: int = 500_000) -> None:
    """Train a lossless SentencePiece model with byte fallback.

    Args:
        sentences: One text each; text beyond SentencePiece's own line limit (4192 bytes) is left out by it.
        output: Model file to write.
        vocab_size: Pieces, special ones and the 256 bytes included.
        max_sentences: Sentences sampled for training.

    Raises:
        RuntimeError: SentencePiece cannot reach `vocab_size` with this text; its message says which size it can.
    """
    with output.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=file,
            vocab_size=vocab_size,
            model_type="unigram",
            byte_fallback=True,
            character_coverage=0.9995,
            # Identity and kept spaces make decode(encode(text)) == text.
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            split_digits=True,
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=PAD_ID,
            minloglevel=1,
        )
