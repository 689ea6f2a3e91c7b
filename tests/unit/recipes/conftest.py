from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from words import WORDS


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[[str], Path]:
    """Write a file of 300 pairs: numbers in Chinese style, and one to six random words."""

    def write(name: str) -> Path:
        rng = random.Random(name)
        pairs = [(f"{name} {i} 号", " ".join(rng.choices(WORDS, k=rng.randint(1, 6))) + f" {i}") for i in range(300)]
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
        return path

    return write
