from __future__ import annotations

import itertools
import json
import tomllib
from pathlib import Path

RECIPE = Path(__file__).parents[3] / "model" / "recipes" / "zh-en"
MADE = {"copying", "passing", "naming", "traditional"}
"""Corpora that `prepare` made, of which nothing is held out."""


def test_every_corpus_of_the_bundled_model_is_in_one_domain() -> None:
    domains = tomllib.loads((RECIPE / "domains.toml").read_text(encoding="utf-8"))
    gathered = list(itertools.chain.from_iterable(domains.values()))
    corpora = json.loads((RECIPE / "checkpoint" / "metadata.json").read_text(encoding="utf-8"))["corpora"]
    assert set(gathered) >= set(corpora) - MADE
    assert len(gathered) == len(set(gathered))
