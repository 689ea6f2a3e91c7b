"""What people write besides plain sentences: lists, headings, chat without punctuation, two languages in a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.integration.conftest import StartServer, shared

from xuanzang.client import AsyncTranslationClient
from xuanzang.model.evaluation.test_sets import missing_key_words

# Of what the bundled model finds a little is left to other processors, whose sums round differently.
SPANS_KEPT = 0.95
WORDS_FOUND = 0.86


class Case(NamedTuple):
    """A text, and what a reader expects of its translation."""

    kind: str
    source: str
    keeps: list[str]
    """Stretches that stay as they are."""
    words: list[list[str]]
    """Words of which it has one each, in any case."""


LINES = (Path(__file__).parent / "written_forms.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [Case(**json.loads(line)) for line in LINES]


def lost(cases: Iterable[tuple[Case, str]]) -> list[tuple[str, str, str]]:
    return [(case.source, text, kept) for case, text in cases for kept in case.keeps if kept not in text]


@shared
async def translated(start_server: StartServer, bundled_zh_en: Path) -> list[tuple[Case, str]]:
    async with start_server(models=bundled_zh_en) as running, AsyncTranslationClient(running.address) as client:
        translations = await client.translate([case.source for case in CASES], timeout=120)
    return list(zip(CASES, (translation.text for translation in translations), strict=True))


async def test_a_reader_finds_what_he_expects_in_texts_of_200_forms(translated: list[tuple[Case, str]]) -> None:
    assert len(translated) == 200
    assert not [case.source for case, text in translated if not text.strip() or "\ufffd" in text]
    assert not lost((case, text) for case, text in translated if case.kind in ("list", "quote", "heading", "lines"))
    spans = sum(len(case.keeps) for case in CASES)
    assert 1 - len(lost(translated)) / spans >= SPANS_KEPT
    words = sum(len(case.words) for case in CASES)
    missing = sum(len(missing_key_words([tuple(word) for word in case.words], text)) for case, text in translated)
    assert 1 - missing / words >= WORDS_FOUND
