"""Quality of translations: scores, faults and key words, of a test set and of each of its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xuanzang.model.evaluation.faults import Faults, count_faults
from xuanzang.model.evaluation.key_words import KeyWords, count_key_words
from xuanzang.model.evaluation.scores import Scores, score_translations
from xuanzang.model.evaluation.test_sets import HeldOutPair
from xuanzang.model.tokenizer import Normalization, normalize


class Quality(NamedTuple):
    """Measurements of some translations."""

    sentences: int
    scores: Scores
    faults: Faults
    key_words: KeyWords

    def as_json(self) -> dict[str, Any]:
        """Return the figures as they are written to a file, rounded."""
        figures = {"sentences": self.sentences} | self.scores._asdict() | self.faults._asdict()
        if self.key_words.wanted:
            figures |= {"key_words": self.key_words.wanted, "key_words_found": self.key_words.found}
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


class Evaluation(NamedTuple):
    """Measurements of the translations of a test set."""

    whole: Quality
    groups: Mapping[str, Quality]
    """Measurements by group, in the order of names; empty if the test set has fewer than two."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures as they are written to a file, rounded."""
        return self.whole.as_json() | {"groups": {name: group.as_json() for name, group in self.groups.items()}}


def measure(
    pairs: Sequence[HeldOutPair], translations: Sequence[str], target_language: str, normalization: Normalization
) -> Evaluation:
    """Measure the translations of a test set and of each of its groups.

    Args:
        pairs: Pairs of the test set, at least one.
        translations: Translations, one per pair.
        target_language: BCP-47 code.
        normalization: Unicode form of the sources that the model read, in which spans are counted.
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
