"""Quality of translations: BLEU, chrF, faults and key words, of a test set and of each of its groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xuanzang.model.data.augmentation.spans import kept_spans
from xuanzang.model.evaluation.comet import Comet, CometScore
from xuanzang.model.evaluation.scores import Scores, score_translations
from xuanzang.model.evaluation.test_sets import HeldOutPair, KeyWords, count_key_words
from xuanzang.model.tokenizer import Normalization, normalize

# Words or a part of one four times in a row, or one character ten times. `has_loop` appends a space, so that the last
# word ends as the others do.
_LOOP = re.compile(r"(\S.{1,60}?)\1{3}|(\S)\2{9}", re.DOTALL)


class Faults(NamedTuple):
    """Faults of translations, counted without knowledge of the language."""

    empty: int
    """Translations without a character."""
    loops: int
    """Translations that repeat themselves where the source does not."""
    length_ratio: float
    """Characters of all translations per character of the references."""
    spans: int
    """Placeholders, tags, links, paths, names and numbers in the sources."""
    kept: int
    """Spans that are in the translation as well."""

    def __str__(self) -> str:
        """Return one line for people."""
        share = f"{self.kept / self.spans:.1%} of {self.spans}" if self.spans else "none to keep"
        return (
            f"empty {self.empty}  loops {self.loops}  length {self.length_ratio:.2f} of the references  "
            f"placeholders, markup, links, names and numbers kept: {share}"
        )


def count_faults(sources: Sequence[str], translations: Sequence[str], references: Sequence[str]) -> Faults:
    """Count faults of translations.

    Args:
        sources: Normalised sources, one per sentence.
        translations: Translations, one per sentence.
        references: References, one per sentence, with at least one character in all.
    """
    spans = [kept_spans(*pair) for pair in zip(sources, translations, strict=True)]
    return Faults(
        empty=sum(not text.strip() for text in translations),
        loops=sum(has_loop(text) and not has_loop(source) for source, text in zip(sources, translations, strict=True)),
        length_ratio=sum(map(len, translations)) / sum(map(len, references)),
        spans=sum(wanted for _, wanted in spans),
        kept=sum(kept for kept, _ in spans),
    )


def has_loop(text: str) -> bool:
    """Return whether a piece of a text follows itself three times over, as when decoding does not find its end."""
    return _LOOP.search(f"{text} ") is not None


class Quality(NamedTuple):
    """Measurements of some translations."""

    sentences: int
    scores: Scores
    faults: Faults
    key_words: KeyWords

    def as_json(self) -> dict[str, Any]:
        """Return the figures in the form of the file, rounded."""
        figures = {"sentences": self.sentences} | self.scores._asdict() | self.faults._asdict()
        if self.key_words.wanted:
            figures |= {"key_words": self.key_words.wanted, "key_words_found": self.key_words.found}
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


class Evaluation(NamedTuple):
    """Measurements of the translations of a test set."""

    whole: Quality
    groups: Mapping[str, Quality]
    """Measurements by group, in the order of names; empty if the test set has fewer than two."""
    comet: CometScore | None = None
    """COMET of all translations, if it was asked for."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures in the form of the file, rounded."""
        comet = self.comet.as_json() if self.comet else {}
        groups = {name: group.as_json() for name, group in self.groups.items()}
        return self.whole.as_json() | comet | {"groups": groups}


def measure(
    pairs: Sequence[HeldOutPair],
    translations: Sequence[str],
    target_language: str,
    normalization: Normalization,
    comet: Comet | None = None,
) -> Evaluation:
    """Measure the translations of a test set and of each of its groups.

    Args:
        pairs: Pairs of the test set, at least one.
        translations: Translations, one per pair.
        target_language: BCP-47 code.
        normalization: Unicode form of the model's sources; spans are counted in it.

    Raises:
        CometError: COMET failed.
    """
    translated = [
        (pair._replace(source=normalize(pair.source, normalization)), translation)
        for pair, translation in zip(pairs, translations, strict=True)
    ]
    names = sorted({pair.group for pair in pairs})
    groups = {name: [item for item in translated if item[0].group == name] for name in names}
    return Evaluation(
        whole=_measure(translated, target_language),
        groups={name: _measure(group, target_language) for name, group in groups.items()} if len(groups) > 1 else {},
        comet=comet.score(*zip(*((pair[0], text, pair[1]) for pair, text in translated), strict=True))
        if comet
        else None,
    )


def _measure(translated: Sequence[tuple[HeldOutPair, str]], target_language: str) -> Quality:
    pairs, translations = zip(*translated, strict=True)
    sources, targets, _, key_words = zip(*pairs, strict=True)
    return Quality(
        len(pairs),
        score_translations(translations, targets, target_language),
        count_faults(sources, translations, targets),
        count_key_words(key_words, translations),
    )
