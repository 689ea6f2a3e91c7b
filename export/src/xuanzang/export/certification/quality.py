"""Translation quality of graphs on the same sentences, and their agreement with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.certification.recording import target_limits
from xuanzang.export.certification.runner import OnnxModel, translate_batch
from xuanzang.export.examples import Example
from xuanzang.export.settings import ExportSettings
from xuanzang.model.beams import Hypothesis, SearchRules, translate_by_length
from xuanzang.model.evaluation.scores import Scores, score_metrics, score_translations
from xuanzang.model.stored_checkpoint import StoredCheckpoint

RESAMPLES = 1000
_SEED = 20041
_BATCH = 100
"""Resamples counted at a time, so that many pairs take little memory."""
Translations = Sequence[Sequence[Hypothesis]]
"""Hypotheses of each sentence, best first."""
_BATCH_SENTENCES = 32
_WIDE = 1024
"""Width above which a batch takes gigabytes for its keys, values and logits."""
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
"""Names of the metrics for people, by their names in keys and flags."""
_REMEDIES = {
    "int8": "Calibrate on more sentences (a longer --valid or --texts, a higher --calibration-sentences), "
    "export with --precision float16 or float32",
    "float16": "Export with --precision float32",
}


class Change(NamedTuple):
    """Difference of a corpus score between two systems on the same sentences."""

    change: float
    """Score of the second system minus that of the first, on all sentences."""
    low: float
    """5th percentile of the change over the resamples: 95% of them change by more."""
    high: float
    """95th percentile: 95% of them change by less."""


def paired_change(metric: Metric, before: Sequence[str], after: Sequence[str], references: Sequence[str]) -> Change:
    """Measure how a corpus score changes from one system to another, with a 90% interval.

    Sentences are drawn with replacement, the same ones for both systems, and the score of each draw is computed from
    the sums of the sentences' statistics. The draws are the same every time.

    Args:
        before: Translations of the first system, one per sentence.
        after: Translations of the second system, one per sentence.
        references: References, one per sentence.

    Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004, section 3.
    """
    systems = [_statistics(metric, texts, references) for texts in (before, after)]
    whole = [_score(metric, statistics.sum(axis=0)) for statistics in systems]
    generator = np.random.default_rng(_SEED)
    sentences = len(references)
    changes = []
    for _ in range(RESAMPLES // _BATCH):
        # Draws per sentence, so that a product sums the statistics.
        draws = generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=_BATCH)  # [draw, sentence]
        sums = [draws @ statistics for statistics in systems]  # [draw, statistic]
        changes += [_score(metric, second) - _score(metric, first) for first, second in zip(*sums, strict=True)]
    low, high = np.percentile(changes, (5, 95))
    return Change(whole[1] - whole[0], float(low), float(high))


# sacreBLEU's own significance test uses these two as well, but reports the interval of each system, not of the change.
def _statistics(metric: Metric, texts: Sequence[str], references: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the statistics of each sentence, [sentence, statistic]."""
    return np.array(metric._extract_corpus_statistics(texts, [references]), dtype=np.float64)  # noqa: SLF001


def _score(metric: Metric, statistics: npt.NDArray[np.float64]) -> float:
    return float(metric._compute_score_from_stats(statistics.tolist()).score)  # noqa: SLF001


def onnx_translations(
    model: OnnxModel, examples: Sequence[Example], settings: ExportSettings, rules: SearchRules
) -> Translations:
    """Translate sentences with graphs, those of like length together."""
    return translate_by_length(
        examples,
        lambda batch: translate_together(model, batch, settings, rules),
        length=lambda example: len(example.source_ids),
        batch_sentences=_BATCH_SENTENCES if model.config.d_model < _WIDE else _BATCH_SENTENCES // 4,
    )


def translate_together(
    model: OnnxModel, batch: Sequence[Example], settings: ExportSettings, rules: SearchRules
) -> list[list[Hypothesis]]:
    """Translate a batch of sentences with graphs."""
    sentences, prefixes = [example.source_ids for example in batch], [example.prefix_ids for example in batch]
    return translate_batch(
        model,
        sentences,
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
        max_target_length=target_limits(sentences, model.config.max_positions, prefixes),
        prefixes=prefixes,
        rules=rules,
    )


def score(checkpoint: StoredCheckpoint, found: Translations, pairs: Sequence[Example]) -> Scores:
    """Return BLEU and chrF of the best hypotheses of the sources of pairs."""
    return score_translations(best_texts(checkpoint, found), _references(pairs), checkpoint.metadata.target_language)


def measure_agreement(checkpoint: StoredCheckpoint, before: Translations, shipped: Translations) -> dict[str, float]:
    """Compare translations of the same sentences with each other.

    Args:
        checkpoint: Exported model.
        before: Translations by the float32 graphs.
    """
    texts, expected = best_texts(checkpoint, shipped), best_texts(checkpoint, before)
    equal = sum(one == other for one, other in zip(texts, expected, strict=True))
    return {
        "sentences": len(texts),
        "chrf": round(CHRF().corpus_score(texts, [expected]).score, 3),
        "equal": round(equal / len(texts), 4),
    }


def require_agreement(agreement: Mapping[str, float], precision: str, settings: ExportSettings) -> None:
    """Refuse graphs whose translations are others than those of the float32 graphs.

    Raises:
        ParityError: The agreement is below its limit.
    """
    if agreement and agreement["chrf"] < settings.min_agreement:
        raise ParityError(
            f"{precision} translates {agreement['sentences']:.0f} sentences otherwise than float32: chrF of one "
            f"against the other is {agreement['chrf']:.1f}, the minimum {settings.min_agreement:g}. "
            f"{_REMEDIES[precision]}, or accept it with --min-agreement"
        )


def compare_precisions(
    checkpoint: StoredCheckpoint, found: Mapping[str, Translations], pairs: Sequence[Example], settings: ExportSettings
) -> dict[str, float]:
    """Return BLEU and chrF of each precision on the first of the same pairs, and how much they change.

    Args:
        checkpoint: Exported model.
        found: Translations of the pairs, by precision: float32 first, the shipped last.
    """
    pairs = pairs[: settings.test_sentences]
    texts = {name: best_texts(checkpoint, translations[: len(pairs)]) for name, translations in found.items()}
    references, language = _references(pairs), checkpoint.metadata.target_language
    quality: dict[str, float] = {"sentences": len(pairs)}
    for precision, translations in texts.items():
        scores = score_translations(translations, references, language)
        quality |= {f"{precision}_bleu": round(scores.bleu, 3), f"{precision}_chrf": round(scores.chrf, 3)}
    before, shipped = texts["float32"], list(texts)[-1]
    metrics: tuple[BLEU | CHRF, ...] = score_metrics(language)
    for name, metric in zip(METRICS, metrics, strict=True):
        change = paired_change(metric, before, texts[shipped], references)
        quality |= {
            f"{shipped}_{name}_change{end}": round(value, 3)
            for end, value in zip(("", "_low", "_high"), change, strict=True)
        }
    return quality


def require_quality(
    shipped_quality: Mapping[str, Mapping[str, float]], precision: str, settings: ExportSettings
) -> None:
    """Refuse graphs whose translations score worse than those of the float32 graphs, beyond doubt.

    Args:
        shipped_quality: Quality by name of the pairs, as in the certificate.
        precision: Precision of the shipped graphs.

    Raises:
        ParityError: The loss in BLEU or chrF on some pairs exceeds its limit with 95% confidence.
    """
    limits = dict(zip(METRICS, (settings.max_bleu_change, settings.max_chrf_change), strict=True))
    faults = [
        _loss(name, quality, f"{precision}_{metric}_change", metric, limit)
        for name, quality in shipped_quality.items()
        for metric, limit in limits.items()
        # The upper end alone, because the lower one grows with the doubt of a small sample.
        if quality[f"{precision}_{metric}_change_high"] < -limit
    ]
    if faults:
        raise ParityError(
            f"{precision} translates worse than float32: {'; '.join(faults)}. "
            f"{_REMEDIES[precision]}, or accept the loss with {' and '.join(map(_flag, METRICS))}"
        )


def _flag(metric: str) -> str:
    return f"--max-{metric}-change"


def _loss(name: str, quality: Mapping[str, float], key: str, metric: str, limit: float) -> str:
    loss, low, high = -quality[key], -quality[f"{key}_high"], -quality[f"{key}_low"]
    return (
        f"{loss:.2f} {METRICS[metric]} lost on {name} (90% interval {low:.2f} to {high:.2f}, "
        f"{quality['sentences']:.0f} pairs), the limit is {limit:g}"
    )


def _references(pairs: Sequence[Example]) -> list[str]:
    return [pair.reference or "" for pair in pairs]


def best_texts(checkpoint: StoredCheckpoint, found: Translations) -> list[str]:
    """Return the texts of the best hypotheses."""
    return [checkpoint.target_tokenizer.decode(hypotheses[0].target_ids) for hypotheses in found]
