"""Punctuation of sources against MarianTokenizer, which has sacremoses beside it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import MarianMTModel, MarianTokenizer

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.importing.family import Wanted
from xuanzang.model.importing.importer import import_model
from xuanzang.text.offsets import Punctuation

LINES = 1000
MARKS = [*".,:;!?()%'`\"«»„“”‘’‚´–—…，。！？（）《》", "\u00a0", "''", "nº\u00a0", '",', '."', " 1\u00a0234,5", " 20 %"]
WORDS = ["我有一只猫", "a cat", "l", "Haus", "été", "3"]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Return lines of words and marks in all orders."""
    chosen = random.Random(0)
    return [
        "".join(chosen.choice([*MARKS, *WORDS, " "]) for _ in range(chosen.randrange(1, 20))).strip() or "."
        for _ in range(LINES)
    ]


@pytest.fixture(scope="module", params=["en", "fr", "zh"])
def directory(
    request: pytest.FixtureRequest, write_marian: Callable[..., MarianMTModel], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("punctuation") / "directory"
    write_marian(folder, source=request.param)
    return folder


def imported(directory: Path, output: Path, *wanted: Wanted) -> Checkpoint:
    import_model(directory, output, *wanted)
    return load_checkpoint(output)


def test_punctuation_reaches_a_model_as_transformers_passes_it_on(
    directory: Path, lines: list[str], tmp_path: Path
) -> None:
    theirs, ours = MarianTokenizer.from_pretrained(directory), imported(directory, tmp_path / "checkpoint")
    assert [ours.source_ids(line) for line in lines] == theirs(lines)["input_ids"]


def test_normalised_punctuation_is_that_of_the_tokenizer_of_transformers(
    directory: Path, lines: list[str], tmp_path: Path
) -> None:
    theirs = MarianTokenizer.from_pretrained(directory)
    ours = imported(directory, tmp_path / "checkpoint", Wanted(punctuation="moses"))
    normalized = [theirs.normalize(line) for line in lines]
    assert sum(one != other for one, other in zip(lines, normalized, strict=True)) > LINES / 2
    served = Punctuation(ours.metadata.source_language)
    assert [served.normalize(line) for line in lines] == normalized
    assert [ours.source_ids(line) for line in lines] == theirs(normalized)["input_ids"]
