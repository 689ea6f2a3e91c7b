"""From files of sentence pairs to a folder that training can map into memory."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from xuanzang.model.corpus import CorpusError, Pair, PairFilter, clean_pairs, read_pairs
from xuanzang.model.data import METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE, PreparedMetadata
from xuanzang.model.tokenizer import Normalization, Tokenizer, train_tokenizer


class PrepareSettings(BaseModel):
    """Filter and de-duplicate sentence pairs, train the tokeniser, write memory-mapped ids."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    train: list[Path] = Field(min_length=1)
    """Files of source<TAB>target lines, plain or .gz; folders stand for every .tsv and .tsv.gz in them."""
    valid: Path
    """Pairs held out for validation, same format. Pairs of the training files that are in it are dropped."""
    output: Path
    """Folder to write."""
    source_language: str = "zh"
    """BCP-47 code of the first column."""
    target_language: str = "en"
    """BCP-47 code of the second column."""
    vocab_size: int = Field(default=16000, ge=300, le=65535)
    """Pieces of each tokeniser."""
    share_vocabulary: bool = True
    """Whether both languages use one tokeniser, which makes names and code easy to copy."""
    weight: dict[str, float] = Field(default_factory=dict)
    """How often pairs of a file are seen per epoch, such as tatoeba=4; files are named without .tsv.gz; default 1."""
    max_characters: int = Field(default=1000, ge=1)
    """Drop pairs with more characters than this on a side."""
    max_length_ratio: float = Field(default=6.0, gt=1)
    """Drop pairs whose sides differ more than this in UTF-8 bytes."""
    max_tokens: int = Field(default=200, ge=8)
    """Drop pairs with more tokens than this on a side, eos counted."""
    source_normalization: Normalization = "nfkc"
    """Unicode form that sources are brought to, here and in the server."""
    swap: bool = False
    """Read the columns as target<TAB>source, to train the opposite direction from the same files."""


def prepare(settings: PrepareSettings) -> PreparedMetadata:
    """Write the folder that `train` reads; the old folder of that name is replaced only when the new one is whole.

    Raises:
        CorpusError: A file is missing, malformed, or nothing is left after filtering.
    """
    scratch = settings.output.with_name(f".{settings.output.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    valid = _oriented(read_pairs(settings.valid), settings)
    corpora, counts = _read_corpora(settings, valid)
    pairs = [pair for corpus in corpora.values() for pair in corpus]
    if not pairs:
        raise CorpusError("no training pairs are left after filtering")
    source_tokenizer, target_tokenizer = _train_tokenizers(pairs, settings, scratch)
    corpus_ids = np.repeat(np.arange(len(corpora)), [len(corpus) for corpus in corpora.values()])
    kept = _write_split(scratch, "train", pairs, (source_tokenizer, target_tokenizer), settings, corpus_ids)
    _write_split(scratch, "valid", list(valid), (source_tokenizer, target_tokenizer), settings, None)
    _write_text(scratch / "valid.tsv", valid)
    metadata = PreparedMetadata(
        source_language=settings.source_language,
        target_language=settings.target_language,
        source_normalization=settings.source_normalization,
        share_vocabulary=settings.share_vocabulary,
        source_vocab_size=len(source_tokenizer),
        target_vocab_size=len(target_tokenizer),
        corpora=list(corpora),
        weights=[settings.weight.get(name, 1.0) for name in corpora],
        train_pairs=kept,
        valid_pairs=len(valid),
        filter_counts=dict(counts),
        data_sha256=_digest(scratch),
    )
    (scratch / METADATA_FILE).write_text(json.dumps(metadata.model_dump(), indent=2, ensure_ascii=False) + "\n")
    shutil.rmtree(settings.output, ignore_errors=True)
    scratch.rename(settings.output)
    return metadata


def _read_corpora(settings: PrepareSettings, valid: Sequence[Pair]) -> tuple[dict[str, list[Pair]], Counter[str]]:
    files = [file for path in settings.train for file in _expand(path)]
    names = [file.name.removesuffix(".gz").removesuffix(".tsv") for file in files]
    if unknown := settings.weight.keys() - set(names):
        raise CorpusError(f"weight given for unknown corpora {sorted(unknown)}; there are {sorted(names)}")
    counts: Counter[str] = Counter()
    pair_filter = PairFilter(max_characters=settings.max_characters, max_length_ratio=settings.max_length_ratio)
    # Marking the validation pairs as seen keeps them out of training.
    seen: set[bytes] = set()
    list(clean_pairs(valid, pair_filter, settings.source_normalization, seen, Counter()))
    corpora: dict[str, list[Pair]] = {}
    for name, file in zip(names, tqdm(files, desc="reading", unit="file", file=sys.stderr), strict=True):
        pairs = _oriented(read_pairs(file), settings)
        kept = clean_pairs(pairs, pair_filter, settings.source_normalization, seen, counts)
        corpora.setdefault(name, []).extend(kept)
    return corpora, counts


def _expand(path: Path) -> list[Path]:
    if not path.exists():
        raise CorpusError(f"{path} does not exist")
    return sorted([*path.glob("*.tsv"), *path.glob("*.tsv.gz")]) if path.is_dir() else [path]


def _oriented(pairs: object, settings: PrepareSettings) -> list[Pair]:
    return [Pair(pair.target, pair.source) if settings.swap else pair for pair in pairs]  # type: ignore[attr-defined]


def _train_tokenizers(pairs: Sequence[Pair], settings: PrepareSettings, output: Path) -> tuple[Tokenizer, Tokenizer]:
    source_file, target_file = output / SOURCE_TOKENIZER_FILE, output / TARGET_TOKENIZER_FILE
    if settings.share_vocabulary:
        train_tokenizer((text for pair in pairs for text in pair), source_file, settings.vocab_size)
        shutil.copyfile(source_file, target_file)
    else:
        train_tokenizer((pair.source for pair in pairs), source_file, settings.vocab_size)
        train_tokenizer((pair.target for pair in pairs), target_file, settings.vocab_size)
    return Tokenizer(source_file), Tokenizer(target_file)


def _write_split(
    output: Path,
    split: str,
    pairs: Sequence[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    settings: PrepareSettings,
    corpus_ids: np.ndarray | None,
) -> int:
    ids = [_encode(tokenizer, texts, split) for tokenizer, texts in zip(tokenizers, zip(*pairs, strict=True), strict=True)]
    lengths = [np.array([len(row) for row in side], dtype=np.int64) for side in ids]
    keep = np.maximum(*lengths) <= settings.max_tokens
    for side, rows, length in zip(("source", "target"), ids, lengths, strict=True):
        kept_rows = [np.array(row, dtype=np.uint16) for row, kept in zip(rows, keep, strict=True) if kept]
        np.save(output / f"{split}.{side}.ids.npy", np.concatenate(kept_rows))
        np.save(output / f"{split}.{side}.offsets.npy", np.concatenate([[0], np.cumsum(length[keep])]))
    if corpus_ids is not None:
        np.save(output / f"{split}.corpus.npy", corpus_ids[keep].astype(np.uint16))
    return int(keep.sum())


def _encode(tokenizer: Tokenizer, texts: Sequence[str], split: str) -> list[list[int]]:
    chunks = range(0, len(texts), 4096)
    progress = tqdm(chunks, desc=f"tokenising {split}", unit="chunk", file=sys.stderr)
    return [row for start in progress for row in tokenizer.encode_all(texts[start : start + 4096])]


def _write_text(path: Path, pairs: Sequence[Pair]) -> None:
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("train.*.npy")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
