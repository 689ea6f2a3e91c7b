"""Shortlists: the target pieces that each source piece suggests, among which decoding chooses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from xuanzang.command.folders import with_usual_mode
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.metadata import (
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    read_metadata,
)
from xuanzang.model.tokenizer import EOS_ID, PAD_ID, Tokenizer

Ints = npt.NDArray[np.int64]

_SPACE = "▁"
_ELEMENTARY = re.compile(f"<0x[0-9A-F]{{2}}>|{_SPACE}?[!-~]?")


class ShortlistSettings(BaseModel):
    """Learn from prepared data which target pieces each source piece suggests."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    data: Path
    """Folder that `prepare` wrote."""
    output: Path
    """File to write, such as shortlist.safetensors."""
    per_piece: int = Field(default=40, ge=1, le=1000)
    """Target pieces that each source piece suggests."""
    frequent: int = Field(default=1000, ge=0)
    """Number of frequent target pieces that every sentence may use, apart from special, byte and one-letter pieces."""
    rounds: int = Field(default=4, ge=1)
    """Iterations of the alignment."""
    max_pairs: int = Field(default=500_000, ge=1)
    """Pairs to learn from, spread over the training data."""


class Shortlist(NamedTuple):
    """Target pieces that sentences may be translated with."""

    suggested: npt.NDArray[np.int32]
    """Target pieces of each source piece, best first, filled up with eos, [source piece, suggestion]."""
    always: npt.NDArray[np.int32]
    """Target pieces that every sentence may use, ascending."""


def make_shortlist(settings: ShortlistSettings) -> Shortlist:
    """Learn a shortlist and write it.

    Raises:
        CorpusError: The folder holds no prepared data, or the package scipy is not installed.
    """
    try:
        from xuanzang.model.data import alignment  # noqa: PLC0415 - scipy is optional
    except ImportError as error:
        raise CorpusError("a shortlist needs the package scipy: pip install 'scipy>=1.11'") from error
    metadata = read_metadata(settings.data)
    sizes = metadata.source_vocab_size, metadata.target_vocab_size
    tokenizers = [Tokenizer(settings.data / name) for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE)]
    pieces = [tokenizer.pieces(range(len(tokenizer))) for tokenizer in tokenizers]
    source, target = (
        alignment.incidence(*_sample(settings.data, side, settings.max_pairs), size)
        for side, size in zip(("source", "target"), sizes, strict=True)
    )
    probabilities = alignment.translation_probabilities(source, target, rounds=settings.rounds)
    suggested = np.full((sizes[0], settings.per_piece), EOS_ID, dtype=np.int32)
    for row, copies in enumerate(_copies(*pieces)):
        learned = alignment.best(probabilities, row, settings.per_piece).tolist()
        found = list(dict.fromkeys([*copies, *learned]))[: settings.per_piece]
        suggested[row, : len(found)] = found
    frequent = np.argsort(-target.sum(axis=0), kind="stable")[: settings.frequent]
    shortlist = Shortlist(suggested, np.union1d(_elementary(pieces[1]), frequent).astype(np.int32))
    save_shortlist(settings.output, shortlist, settings.data)
    return shortlist


def save_shortlist(file: Path, shortlist: Shortlist, tokenizers: Path) -> None:
    """Write a shortlist, with the digests of the tokenisers that it is for."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with_usual_mode(file, lambda path: save_file(shortlist._asdict(), path, metadata=_fingerprint(tokenizers)))


def load_shortlist(file: Path, tokenizers: Path) -> Shortlist:
    """Read a shortlist.

    Args:
        file: File that `make_shortlist` wrote.
        tokenizers: Folder of the tokenisers to use it with, such as a checkpoint.

    Raises:
        CorpusError: It is no shortlist, or one for other tokenisers.
    """
    try:
        with safe_open(file, framework="np") as opened:
            made_for = opened.metadata()
        shortlist = Shortlist(**load_file(file))
    except (SafetensorError, OSError, TypeError) as error:
        raise CorpusError(f"{file} is no shortlist: {error}") from error
    if made_for != _fingerprint(tokenizers):
        raise CorpusError(f"{file} was made with other tokenisers than those in {tokenizers}")
    return shortlist


def _sample(folder: Path, side: str, count: int) -> tuple[Ints, Ints]:
    """Return the ids of some training sentences, one after the other, and the start of each."""
    ids = np.load(folder / f"train.{side}.ids.npy", mmap_mode="r")
    offsets = np.load(folder / f"train.{side}.offsets.npy").astype(np.int64)
    chosen = np.linspace(0, len(offsets) - 2, min(count, len(offsets) - 1)).astype(np.int64)
    lengths = np.diff(offsets)[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(offsets[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
    return ids[places].astype(np.int64), starts


def _copies(source: Sequence[str], target: Sequence[str]) -> Iterator[list[int]]:
    """Find the target pieces that repeat each source piece, with or without a space before it."""
    ids = {piece: number for number, piece in enumerate(target)}
    for piece in source:
        bare = piece.removeprefix(_SPACE)
        yield [ids[form] for form in (bare, _SPACE + bare) if form in ids and form not in ("", _SPACE)]


def _elementary(pieces: Sequence[str]) -> list[int]:
    """Find the pieces that can spell anything: special ones, bytes, and single ASCII characters."""
    return [number for number, piece in enumerate(pieces) if number <= PAD_ID or _ELEMENTARY.fullmatch(piece)]


def _fingerprint(folder: Path) -> dict[str, str]:
    names = (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE, SOURCE_TABLE_FILE, TARGET_TABLE_FILE)
    contents = [(folder / name).read_bytes() for name in names if (folder / name).exists()]
    return {"tokenizers": " ".join(sorted({hashlib.sha256(content).hexdigest() for content in contents}))}
