"""Training of tokenisers: the pieces of a vocabulary, learned from text."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from xuanzang.model.data.corpus import CorpusError, Pair
from xuanzang.model.data.metadata import SOURCE_TABLE_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE
from xuanzang.model.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer

_OPTIONS: dict[str, Any] = {
    "model_type": "unigram",
    "byte_fallback": True,
    "character_coverage": 0.9995,
    # Identity and kept spaces make decode(encode(text)) == text.
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "split_digits": True,
    "shuffle_input_sentence": True,
    "unk_id": UNK_ID,
    "bos_id": BOS_ID,
    "eos_id": EOS_ID,
    "pad_id": PAD_ID,
    "minloglevel": 1,
}


def train_tokenizers(
    pairs: Sequence[Pair], folder: Path, vocab_size: int, *, share: bool
) -> tuple[Tokenizer, Tokenizer]:
    """Train the tokenisers of both sides and write them to a folder.

    Args:
        folder: Folder for source.spm and target.spm.
        vocab_size: Pieces of each, special ones and the 256 bytes included.
        share: Whether both sides get the same tokeniser.

    Returns:
        Those of source and target.

    Raises:
        CorpusError: `vocab_size` is too high or too low for the text; the message says which size it allows.
    """
    source_file, target_file = folder / SOURCE_TOKENIZER_FILE, folder / TARGET_TOKENIZER_FILE
    if share:
        train_tokenizer((text for pair in pairs for text in pair), source_file, vocab_size)
        shutil.copyfile(source_file, target_file)
    else:
        train_tokenizer((pair.source for pair in pairs), source_file, vocab_size)
        train_tokenizer((pair.target for pair in pairs), target_file, vocab_size)
    return Tokenizer(source_file), Tokenizer(target_file)


def copy_tokenizers(source_folder: Path, folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Copy the tokenisers of prepared data or a checkpoint to a folder; returns those of source and target.

    Raises:
        CorpusError: They are missing or damaged, or give their pieces ids of a table, as those of imported models do.
    """
    if (source_folder / SOURCE_TABLE_FILE).exists():
        raise CorpusError(f"the pieces of {source_folder} have ids of their own, which training does not know")
    try:
        for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
            shutil.copyfile(source_folder / name, folder / name)
        return Tokenizer(folder / SOURCE_TOKENIZER_FILE), Tokenizer(folder / TARGET_TOKENIZER_FILE)
    except OSError as error:
        raise CorpusError(f"no tokenisers can be taken from {source_folder}: {error}") from error


def train_tokenizer(sentences: Iterable[str], output: Path, vocab_size: int, *, max_sentences: int = 500_000) -> None:
    """Train a lossless SentencePiece model with byte fallback.

    Args:
        sentences: One text each; text beyond SentencePiece's own line limit (4192 bytes) is left out by it.
        vocab_size: Pieces, special ones and the 256 bytes included.
        max_sentences: Sentences sampled for training.

    Raises:
        CorpusError: `vocab_size` is too high or too low for the text; the message says which size it allows.
    """
    # SentencePiece samples with its own generator; without a seed every run would make another vocabulary.
    sentencepiece.set_random_generator_seed(0)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=vocab_size,
            input_sentence_size=max_sentences,
            **_OPTIONS,
        )
    except RuntimeError as error:
        raise CorpusError(_reason(error)) from error
    output.write_bytes(model.getvalue())


def _reason(error: RuntimeError) -> str:
    if highest := re.search(r"Vocabulary size too high .* value <= (\d+)", str(error)):
        return f"vocab_size is too high for so little text, at most {highest[1]} is possible"
    if lowest := re.search(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)", str(error)):
        return f"vocab_size is too low for the characters of the text, it needs at least {lowest[1]}"
    return str(error)
