"""Sentences that an export is measured with: pairs, texts, or a sample of many languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

from xuanzang.export.settings import ExportSettings
from xuanzang.model.data.corpus import CorpusError, Pair, read_lines, read_pairs
from xuanzang.model.stored_checkpoint import CheckpointError, StoredCheckpoint

Kind = Literal["pairs", "texts", "sample"]
_SAMPLE_FILE = "sample.tsv"


class Example(NamedTuple):
    """A sentence to translate."""

    source: str
    source_ids: list[int]
    """End and languages included."""
    prefix_ids: list[int]
    """Ids that its translation begins with."""
    direction: str
    """Languages, such as "zh to en"."""
    reference: str | None = None
    """Translation by a human."""


class Examples(NamedTuple):
    """The sentences of an export."""

    kind: Kind
    """Origin of the texts: `--valid`, `--texts`, or the sample that the exporter has."""
    sentences: list[Example]

    @property
    def directions(self) -> list[str]:
        """Directions of the sentences, each once."""
        return list(dict.fromkeys(example.direction for example in self.sentences))


def choose_languages(checkpoint: StoredCheckpoint, settings: ExportSettings) -> StoredCheckpoint:
    """Return the checkpoint for the languages of the user's sentences, which cannot be guessed among many.

    Raises:
        CheckpointError: A language is needed that is not named, or named that the checkpoint lacks.
    """
    metadata, missing = checkpoint.metadata, list[str]()
    for side, given, ids in (
        ("source", settings.source_language, metadata.source_language_ids),
        ("target", settings.target_language, metadata.target_language_ids),
    ):
        if len(ids) > 1 and not given:
            missing.append(f"--{side}-language, one of {', '.join(sorted(ids))}")
    if missing and (settings.valid or settings.texts):
        flag = "--valid" if settings.valid else "--texts"
        raise CheckpointError(
            f"{checkpoint.folder} has many languages; those of {flag} are needed: {'; '.join(missing)}"
        )
    return checkpoint.between(settings.source_language, settings.target_language)


def read_examples(checkpoint: StoredCheckpoint, settings: ExportSettings) -> Examples:
    """Read the sentences that the settings name, or those of the sample.

    Args:
        checkpoint: Model for the languages of the sentences.

    Raises:
        CorpusError: A file cannot be read, or no sentence fits the model.
    """
    if settings.valid:
        return Examples("pairs", read_usable_pairs(checkpoint, settings.valid))
    if settings.texts:
        texts = (text for text in read_lines(settings.texts) if text)
        return Examples("texts", _fitting(checkpoint, [_example(checkpoint, text) for text in texts], settings.texts))
    return Examples("sample", _fitting(checkpoint, list(_sample(checkpoint, settings)), Path(_SAMPLE_FILE)))


def read_usable_pairs(checkpoint: StoredCheckpoint, path: Path) -> list[Example]:
    """Read the pairs that fit the model on both sides.

    Raises:
        CorpusError: The file cannot be read, or no pair fits.
    """
    limit = checkpoint.config.max_positions
    pairs = [
        _example(checkpoint, pair.source, pair.target)
        for pair in read_pairs(path)
        if pair.source and pair.target and _target_length(checkpoint, pair) <= limit
    ]
    return _fitting(checkpoint, pairs, path)


def _target_length(checkpoint: StoredCheckpoint, pair: Pair) -> int:
    return len(checkpoint.target_prefix_ids) + len(checkpoint.target_tokenizer.encode(pair.target))


def _fitting(checkpoint: StoredCheckpoint, examples: Sequence[Example], path: Path) -> list[Example]:
    limit = checkpoint.config.max_positions
    fitting = [example for example in examples if len(example.source_ids) <= limit]
    if not fitting:
        raise CorpusError(f"{path}: no sentence fits the model's {limit} positions")
    return fitting


def _example(checkpoint: StoredCheckpoint, source: str, reference: str | None = None) -> Example:
    metadata = checkpoint.metadata
    direction = f"{metadata.source_language} to {metadata.target_language}"
    return Example(source, checkpoint.source_ids(source), checkpoint.target_prefix_ids, direction, reference)


def _sample(checkpoint: StoredCheckpoint, settings: ExportSettings) -> Iterator[Example]:
    """Yield the sentences of the sample in the languages that the model reads, into each language in turn."""
    texts = _texts_by_language(checkpoint, _wanted(settings.source_language, checkpoint.metadata.source_languages))
    targets = _wanted(settings.target_language, checkpoint.metadata.target_languages)
    known = [code for code in targets if code in _sample_languages()] or targets[:8]
    # Languages alternate, so that any first part has as many languages as possible.
    for number in range(max(map(len, texts.values()))):
        for place, (source, sentences) in enumerate(texts.items()):
            if number < len(sentences):
                others = [code for code in known if _primary(code) != _primary(source)] or known
                target = others[(number + place) % len(others)]
                yield _example(checkpoint.between(source, target), sentences[number])


def _wanted(given: str, all_of_them: Sequence[str]) -> list[str]:
    return [given] if given else list(all_of_them)


def _texts_by_language(checkpoint: StoredCheckpoint, sources: Sequence[str]) -> dict[str, list[str]]:
    """Return the sentences of the sample by source language.

    A model that reads none of the languages gets the sentences in its script: those without unknown pieces.
    """
    rows = _sample_rows()
    texts = {code: [text for language, text in rows if language == code] for code in sources}
    if found := {code: sentences for code, sentences in texts.items() if sentences}:
        return found
    unk_id = checkpoint.config.unk_id
    readable = [text for _, text in rows if unk_id not in checkpoint.source_ids(text)]
    return {sources[0]: readable or [text for _, text in rows]}


def _sample_rows() -> list[tuple[str, str]]:
    text = resources.files("xuanzang.export").joinpath(_SAMPLE_FILE).read_text(encoding="utf-8")
    return [(code, sentence) for code, _, sentence in (line.partition("\t") for line in text.splitlines())]


def _sample_languages() -> set[str]:
    return {code for code, _ in _sample_rows()}


def _primary(code: str) -> str:
    return code.partition("-")[0]


def sources_of(examples: Iterable[Example]) -> list[list[int]]:
    """Return the source ids of sentences."""
    return [example.source_ids for example in examples]
