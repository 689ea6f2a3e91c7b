"""Translation quality of torch and graphs on the same sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.certification.parity import target_limit
from xuanzang.export.certification.runner import OnnxModel, translate_batch
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.corpus import Pair
from xuanzang.model.evaluation import Scores, score_translations
from xuanzang.model.search import Hypothesis
from xuanzang.model.translation import translate_by_length, translate_ids

Translations = Sequence[Sequence[Hypothesis]]
"""Hypotheses of each sentence, best first."""


def torch_translations(
    checkpoint: Checkpoint, sentences: Sequence[Sequence[int]], settings: ExportSettings
) -> Translations:
    """Translate sentences of source ids with the torch model."""
    return translate_ids(
        checkpoint.model, sentences, beam_size=settings.beam_size, length_penalty=settings.length_penalty
    )


def onnx_translations(model: OnnxModel, sentences: Sequence[Sequence[int]], settings: ExportSettings) -> Translations:
    """Translate sentences of source ids with graphs, those of like length together."""
    return translate_by_length(sentences, lambda batch: translate_together(model, batch, settings))


def translate_together(
    model: OnnxModel, batch: Sequence[Sequence[int]], settings: ExportSettings
) -> list[list[Hypothesis]]:
    """Translate a batch of sentences of source ids with graphs."""
    return translate_batch(
        model,
        batch,
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
        max_target_length=target_limit(batch, model.config.max_positions),
    )


def score(checkpoint: Checkpoint, found: Translations, pairs: Sequence[Pair]) -> Scores:
    """Return BLEU and chrF of the best hypotheses of the sources of pairs."""
    texts = [checkpoint.target_tokenizer.decode(hypotheses[0].target_ids) for hypotheses in found]
    return score_translations(texts, [pair.target for pair in pairs], checkpoint.metadata.target_language)


def compare_precisions(
    checkpoint: Checkpoint, found: Mapping[str, Translations], pairs: Sequence[Pair], settings: ExportSettings
) -> dict[str, float]:
    """Return BLEU and chrF of each precision on the first of the same pairs.

    Args:
        checkpoint: Exported model.
        found: Translations of the pairs, by precision.
        pairs: Held-out pairs.
        settings: Settings with the number of pairs to compare.
    """
    pairs = pairs[: settings.test_sentences]
    quality: dict[str, float] = {"sentences": len(pairs)}
    for precision, translations in found.items():
        scores = score(checkpoint, translations[: len(pairs)], pairs)
        quality |= {f"{precision}_bleu": round(scores.bleu, 3), f"{precision}_chrf": round(scores.chrf, 3)}
    return quality


def require_quality(
    shipped_quality: Mapping[str, Mapping[str, float]], precision: str, settings: ExportSettings
) -> None:
    """Refuse graphs whose translations score otherwise than those of the float32 graphs.

    Args:
        shipped_quality: Quality by name of the pairs, as in the certificate.
        precision: Precision of the shipped graphs.
        settings: Settings with the limits.

    Raises:
        ParityError: BLEU or chrF of some pairs differ by more than their limit.
    """
    limits = {"bleu": settings.max_bleu_change, "chrf": settings.max_chrf_change}
    faults = [
        f"{change:+.2f} {metric} on {name}, the limit is {limit}"
        for name, quality in shipped_quality.items()
        for metric, limit in limits.items()
        if abs(change := quality[f"{precision}_{metric}"] - quality[f"float32_{metric}"]) > limit
    ]
    if faults:
        raise ParityError(f"{precision} differs from float32: {'; '.join(faults)}")
