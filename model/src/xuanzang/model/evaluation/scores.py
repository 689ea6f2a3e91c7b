"""BLEU and chrF of translations, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF


class Scores(NamedTuple):
    """Corpus scores of translations against one reference each."""

    bleu: float
    """0 to 100."""
    chrf: float
    """0 to 100, chrF2."""
    bleu_signature: str
    """sacreBLEU's signature, to compare scores."""
    chrf_signature: str
    """The same for chrF."""

    def __str__(self) -> str:
        """Return two lines for people."""
        return f"BLEU {self.bleu:.2f}  ({self.bleu_signature})\nchrF {self.chrf:.2f}  ({self.chrf_signature})"


def score_translations(translations: Sequence[str], references: Sequence[str], target_language: str) -> Scores:
    """Score translations with sacreBLEU; Chinese and Japanese are cut into characters.

    Args:
        translations: Translations, one per sentence.
        references: References, one per sentence.
        target_language: BCP-47 code, which chooses the tokenisation.
    """
    bleu, chrf = score_metrics(target_language)
    bleu_score = bleu.corpus_score(translations, [references])
    chrf_score = chrf.corpus_score(translations, [references])
    return Scores(bleu_score.score, chrf_score.score, str(bleu.get_signature()), str(chrf.get_signature()))


def score_metrics(target_language: str) -> tuple[BLEU, CHRF]:
    """Return the metrics that `score_translations` computes.

    Args:
        target_language: BCP-47 code, which chooses the tokenisation.
    """
    primary = target_language.split("-", maxsplit=1)[0].lower()
    return BLEU(tokenize={"zh": "zh", "ja": "char"}.get(primary, "13a")), CHRF()
