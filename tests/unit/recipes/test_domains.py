from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

RECIPE = Path(__file__).parents[3] / "model" / "recipes" / "zh-en"


def test_every_corpus_of_the_bundled_model_is_in_one_domain() -> None:
    domains = tomllib.loads((RECIPE / "domains.toml").read_text(encoding="utf-8"))
    gathered = list(itertools.chain.from_iterable(domains.values()))
    card = (RECIPE / "card.md").read_text(encoding="utf-8").partition("| source | pairs offered |")[2]
    card = card.partition("\n## ")[0]
    corpora = re.findall(r"^\| (\w+) \| [0-9,]+ \|", card, re.MULTILINE)
    assert len(corpora) > 50
    assert set(gathered) >= set(corpora)
    assert len(gathered) == len(set(gathered))
