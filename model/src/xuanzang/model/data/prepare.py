"""The command `prepare`: from files of sentence pairs to a folder that training maps into memory."""

from __future__ import annotations

import filecmp
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from tqdm import tqdm

from xuanzang.command.folders import replacing
from xuanzang.model.data.augmentation.pairs import Shares, augment
from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs
from xuanzang.model.data.filters import PairFilter, clean_pairs, plain_typography, side_keys
from xuanzang.model.data.folding import fold_traditional
from xuanzang.model.data.metadata import METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE, PreparedMetadata
from xuanzang.model.data.splits import HELD_OUT_FILE, HeldOut, SplitWriter, digest, hold_out, write_held_out
from xuanzang.model.data.tokenizer_training import copy_tokenizers, train_tokenizers
from xuanzang.model.tokenizer import Tokenizer, normalize

CARD_FILE = "data_card.json"


def write_card(folder: Path, metadata: PreparedMetadata, counts: Mapping[str, Counter[str]]) -> None:
    """Write data_card.json: for each corpus its pairs, weight, share of an epoch, and dropped pairs by reason.

    Args:
        counts: Number of "kept" pairs and of each reason to drop, for every corpus that was read; the others were made.
    """
    corpus_ids = np.load(folder / "train.corpus.npy")
    pairs = np.bincount(corpus_ids, minlength=len(metadata.corpora))
    seen = pairs * np.asarray(metadata.weights)
    corpora = {
        name: {
            "offered": counts[name].total() if name in counts else 0,
            "pairs": int(pairs[i]),
            "weight": metadata.weights[i],
            "share": round(float(seen[i] / seen.sum()), 5),
            "dropped": {reason: count for reason, count in sorted(counts.get(name, {}).items()) if reason != "kept"},
        }
        for i, name in enumerate(metadata.corpora)
    }
    card = {"pairs_per_epoch": round(float(seen.sum())), "corpora": corpora}
    (folder / CARD_FILE).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class PrepareSettings(BaseModel):
    """Filter and de-duplicate sentence pairs, train the tokeniser, write memory-mapped ids."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    train: list[Path] = Field(min_length=1)
    """Files of source<TAB>target lines, plain or .gz; folders stand for every .tsv and .tsv.gz in them."""
    valid: Path | None = None
    """Pairs held out for validation, same format. Pairs of the training files that are in it are dropped."""
    valid_share: float = Field(default=0.0, ge=0, lt=1)
    """Instead of `valid`: fraction of each training file to hold out. The same pairs are held out whatever else is
    prepared. They are also written to `valid.tsv`, with the name of the file as a third column."""
    valid_maximum: int = Field(default=200, ge=1)
    """Upper limit of the pairs that `valid_share` holds out of each file."""
    keep_out: list[Path] = Field(default_factory=list)
    """Files of pairs to keep out of training, such as test sets. Every pair is dropped that shares a side with one of
    them, but for case, punctuation, width and traditional characters."""
    output: Path
    """Folder to write."""
    overwrite: bool = False
    """Replace `output` if it holds prepared data already."""
    source_language: str = "zh"
    """BCP-47 code of the sources."""
    target_language: str = "en"
    """BCP-47 code of the targets."""
    vocab_size: int = Field(default=16000, ge=300, le=65535)
    """Pieces of each tokeniser."""
    share_vocabulary: bool = True
    """One tokeniser for both languages, which makes names and code easy to copy."""
    tokenizers_from: Path | None = None
    """Prepared data or checkpoint whose tokenisers to use instead of training new ones, as fine-tuning needs."""
    weight: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Uses of a file's pairs per epoch, such as tatoeba=4; files are named without .tsv.gz; default 1."""
    max_characters: int = Field(default=1000, ge=1)
    """Drop pairs with more characters than this on a side."""
    max_length_ratio: float = Field(default=6.0, gt=1)
    """Drop pairs whose sides differ more than this in UTF-8 bytes."""
    min_script_share: float = Field(default=0.2, ge=0, le=1)
    """Drop pairs with a smaller share of letters in their language's script on a side; known for zh, en, de, es, fr."""
    max_tokens: int = Field(default=200, ge=8, le=512)
    """Drop pairs with more tokens than this on a side, eos counted."""
    source_normalization: Literal["none", "nfkc"] = "nfkc"
    """Unicode form that sources are brought to, here and in the server."""
    fold_traditional: bool = False
    """Let the tokenisers read traditional Chinese characters as simplified ones."""
    target_typography: Literal["none", "plain"] = "none"
    """"plain" gives targets straight quotes, three dots and single spaces, so that there is one form to learn."""
    swap: bool = False
    """Read the columns as target<TAB>source, to train the opposite direction from the same files."""
    copying_share: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch to add in pairs with a random placeholder, tag, link, name or number in both sides."""
    passing_share: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch to add in targets as pairs of their own, so that text of that language passes unchanged."""
    naming_share: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch to add in Chinese and English sentences made of names, dates, numbers and sums of money."""
    number_share: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch to add in Chinese and English sentences made of amounts, dates, percentages and units."""
    term_share: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch to add in pairs with words of the target in the source, as glossaries put them there; needs the
    package scipy."""
    seed: int = Field(default=0, ge=0)
    """Seed of the pairs that are drawn for the shares."""

    @model_validator(mode="after")
    def _check_validation(self) -> Self:
        if (self.valid is None) == (self.valid_share == 0):
            raise ValueError("give either valid or valid-share")
        return self

    @model_validator(mode="after")
    def _check_made_sentences(self) -> Self:
        for flag, share in (("naming-share", self.naming_share), ("number-share", self.number_share)):
            if share and sorted(self.languages) != ["en", "zh"]:
                raise ValueError(f"{flag} is for zh and en, not for {' and '.join(self.languages)}")
        return self

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_language, self.target_language


def prepare(settings: PrepareSettings) -> PreparedMetadata:
    """Write the folder that `train` reads; the old folder of that name is replaced only when the new one is whole.

    Raises:
        CorpusError: A file is missing or malformed, nothing is left after filtering, there is too little text for the
            vocabulary, or `output` exists and may not be overwritten or holds something else.
    """
    _require_free(settings)
    gathered, counts = _gather(settings)
    with replacing(settings.output, marker=METADATA_FILE) as folder:
        tokenizers = _tokenizers(settings, [pair for pairs in gathered.corpora.values() for pair in pairs], folder)
        metadata = _write_ids(settings, folder, gathered, tokenizers, counts)
        write_card(folder, metadata, counts)
        if gathered.names:
            write_held_out(folder / HELD_OUT_FILE, gathered)
        (folder / METADATA_FILE).write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return metadata


def _gather(settings: PrepareSettings) -> tuple[HeldOut, dict[str, Counter[str]]]:
    """Read all files; return the pairs for training and validation, and the dropped pairs of each corpus."""
    # Validation pairs are not filtered themselves.
    valid = _read_whole(settings.valid, settings) if settings.valid else []
    apart = [*valid, *(pair for file in settings.keep_out for pair in _read_whole(file, settings))]
    corpora, counts = _read_corpora(settings, apart)
    if settings.valid_share > 0:
        gathered = hold_out(corpora, settings.valid_share, settings.valid_maximum, counts)
    else:
        gathered = HeldOut(corpora=corpora, pairs=valid, names=[])
    if not any(gathered.corpora.values()) or not gathered.pairs:
        raise CorpusError(f"no {'training' if gathered.pairs else 'validation'} pairs are left after filtering")
    return gathered, counts


def _write_ids(
    settings: PrepareSettings,
    folder: Path,
    gathered: HeldOut,
    tokenizers: tuple[Tokenizer, Tokenizer],
    counts: Mapping[str, Counter[str]],
) -> PreparedMetadata:
    """Write the ids of all pairs, with those made from them, and return their description."""
    weights = {name: settings.weight.get(name, 1.0) for name in gathered.corpora}
    made = augment(
        gathered.corpora,
        weights,
        _shares(settings),
        settings.languages,
        settings.source_normalization,
        seed=settings.seed,
        tokenizers=tokenizers,
    )
    corpora = gathered.corpora | made
    names, pairs = list(corpora), [pair for corpus in corpora.values() for pair in corpus]
    writer = SplitWriter(folder, tokenizers, settings.max_tokens)
    valid_corpora = [names.index(name) for name in gathered.names] or None
    return PreparedMetadata(
        source_language=settings.source_language,
        target_language=settings.target_language,
        source_normalization=settings.source_normalization,
        share_vocabulary=filecmp.cmp(folder / SOURCE_TOKENIZER_FILE, folder / TARGET_TOKENIZER_FILE, shallow=False),
        source_vocab_size=len(tokenizers[0]),
        target_vocab_size=len(tokenizers[1]),
        corpora=names,
        weights=[weights.get(name, 1.0) for name in names],
        train_pairs=writer.write("train", pairs, [i for i, name in enumerate(names) for _ in corpora[name]]),
        valid_pairs=writer.write("valid", gathered.pairs, valid_corpora),
        filter_counts=dict(sum(counts.values(), Counter())),
        data_sha256=digest(folder),
    )


def _require_free(settings: PrepareSettings) -> None:
    if not settings.output.exists():
        return
    if not (settings.output / METADATA_FILE).exists():
        raise CorpusError(f"{settings.output} exists and is not a folder of prepared data; choose another output")
    if not settings.overwrite:
        raise CorpusError(f"{settings.output} holds prepared data already; give --overwrite to replace them")


def _read_corpora(
    settings: PrepareSettings, apart: Sequence[Pair]
) -> tuple[dict[str, list[Pair]], dict[str, Counter[str]]]:
    files = [file for path in settings.train for file in _expand(path)]
    names = [file.name.removesuffix(".gz").removesuffix(".tsv") for file in files]
    if unknown := settings.weight.keys() - set(names):
        raise CorpusError(f"weight given for unknown corpora {sorted(unknown)}; there are {sorted(names)}")
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    corpora: dict[str, list[Pair]] = {}
    pair_filter = PairFilter(
        max_characters=settings.max_characters,
        max_length_ratio=settings.max_length_ratio,
        min_script_share=settings.min_script_share,
        languages=settings.languages,
        kept_out=side_keys(apart),
    )
    seen: set[bytes] = set()
    for name, file in zip(names, tqdm(files, desc="reading", unit="file", file=sys.stderr), strict=True):
        corpora.setdefault(name, []).extend(clean_pairs(_read(file, settings), pair_filter, seen, counts[name]))
    return corpora, counts


def _shares(settings: PrepareSettings) -> Shares:
    return Shares(
        copying=settings.copying_share,
        passing=settings.passing_share,
        naming=settings.naming_share,
        numbers=settings.number_share,
        terms=settings.term_share,
    )


def _tokenizers(settings: PrepareSettings, pairs: Sequence[Pair], folder: Path) -> tuple[Tokenizer, Tokenizer]:
    if settings.tokenizers_from:
        tokenizers = copy_tokenizers(settings.tokenizers_from, folder)
    else:
        tokenizers = train_tokenizers(pairs, folder, settings.vocab_size, share=settings.share_vocabulary)
    if not settings.fold_traditional:
        return tokenizers
    files = folder / SOURCE_TOKENIZER_FILE, folder / TARGET_TOKENIZER_FILE
    fold_traditional(*files)
    return Tokenizer(files[0]), Tokenizer(files[1])


def _expand(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    files = sorted([*path.glob("*.tsv"), *path.glob("*.tsv.gz")])
    if not files:
        raise CorpusError(f"{path} holds no files *.tsv or *.tsv.gz")
    return files


def _read_whole(path: Path, settings: PrepareSettings) -> list[Pair]:
    return [pair for pair in _read(path, settings) if all(pair)]


def _read(path: Path, settings: PrepareSettings) -> Iterator[Pair]:
    for source, target in read_pairs(path):
        pair = Pair(target, source) if settings.swap else Pair(source, target)
        plain = plain_typography if settings.target_typography == "plain" else str
        yield Pair(normalize(pair.source, settings.source_normalization), plain(pair.target))
