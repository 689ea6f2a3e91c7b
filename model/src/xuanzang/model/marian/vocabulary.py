"""Vocabularies of a model directory, as tables of pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xuanzang.model.marian.directory import SOURCE_SPM, TARGET_SPM, TARGET_VOCAB, VOCAB, MarianDirectory
from xuanzang.model.tokenizer import Tokenizer


class Vocabularies(NamedTuple):
    """Pieces of both sides."""

    source: list[str]
    """Pieces by id."""
    target: list[str]
    """Pieces by id."""
    unk_id: int
    """Id of pieces outside a table, on both sides."""


def read_vocabularies(directory: MarianDirectory, faults: list[str]) -> Vocabularies:
    """Make tables of the vocabularies and see that they belong to config and tokenisers.

    Args:
        directory: Model directory.
        faults: List to which faults are added.
    """
    source_size, target_size = directory.vocab_sizes
    target_name = VOCAB if directory.target_vocab is directory.source_vocab else TARGET_VOCAB
    source = _table(VOCAB, directory.source_vocab, source_size, faults)
    target = source
    if target_name != VOCAB or target_size != source_size:
        target = _table(target_name, directory.target_vocab, target_size, faults)
    for name in (SOURCE_SPM, TARGET_SPM):
        try:
            Tokenizer(directory.folder / name)
        except OSError:
            faults.append(f"{name} is not a SentencePiece model")
    return Vocabularies(source, target, _special_ids(directory, target_name, faults))


def _table(name: str, vocab: Mapping[str, int], size: object, faults: list[str]) -> list[str]:
    pieces = {number: piece for piece, number in vocab.items()}
    if len(vocab) != size:
        faults.append(f"{name} has {len(vocab)} pieces, config.json says {size}")
    elif set(pieces) != set(range(len(vocab))):
        faults.append(f"{name}: the ids are not 0 to {len(vocab) - 1}, each once")
    else:
        return [pieces[number] for number in range(len(vocab))]
    return []


def _special_ids(directory: MarianDirectory, target_name: str, faults: list[str]) -> int:
    """Check the ids of end and unknown, and return the latter."""
    unk, eos = _special(directory, "unk_token", "<unk>"), _special(directory, "eos_token", "</s>")
    eos_id, unk_id = directory.generation_setting("eos_token_id"), directory.source_vocab.get(unk, -1)
    for name, vocab in {VOCAB: directory.source_vocab, target_name: directory.target_vocab}.items():
        if eos not in vocab or unk not in vocab:
            faults.append(f"{name} lacks {unk!r} or {eos!r}")
        elif vocab[eos] != eos_id:
            faults.append(f"unsupported: {eos!r} is {vocab[eos]} in {name}, but eos_token_id is {eos_id}")
        elif vocab[unk] != unk_id:
            faults.append(f"unsupported: {unk!r} is {vocab[unk]} in {name}, but {unk_id} in {VOCAB}")
    return unk_id


def _special(directory: MarianDirectory, name: str, default: str) -> str:
    token = directory.tokenizer.get(name) or default
    return str(token.get("content", default) if isinstance(token, dict) else token)
