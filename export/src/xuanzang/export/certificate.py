"""What was measured at export, kept with the bundle."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from tqdm import tqdm

from xuanzang.export.parity import Parity, compare, step_milliseconds, target_limit
from xuanzang.export.runner import OnnxModel, ShortlistedModel, translate_batch
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs
from xuanzang.model.evaluation import Scores, score_translations
from xuanzang.model.search import Hypothesis
from xuanzang.model.translation import translate_by_length, translate_ids

SAMPLES = 8
"""Sentences that the server replays before it serves the bundle."""

ByPrecision = Mapping[str, Sequence[Sequence[Hypothesis]]]
"""Hypotheses of the same sentences, best first, by precision of the graphs."""


class ParityError(Exception):
    """The graphs do not do what the checkpoint does; no bundle is written."""


class Sample(BaseModel):
    """A sentence with the ids that the bundle must give for it."""

    source: str
    source_ids: list[int]
    target_ids: list[int]
    target: str
    beam_size: int
    length_penalty: float


class Certificate(BaseModel):
    """The contents of certificate.json."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    parity: dict[str, dict[str, float]]
    """By graph precision: sentences and steps compared with torch float32, greatest difference, token agreement."""
    quality: dict[str, dict[str, float]]
    """By "torch_float32", "onnx_float32" and, if exported, "onnx_int8" or "onnx_float16", and "shortlist": BLEU and
    chrF of the same sentences."""
    quality_sentences: int
    """Sentences translated for it."""
    shipped_quality: dict[str, dict[str, float]]
    """By name of the pairs: sentences, and BLEU and chrF of the float32 graphs and the shipped; empty for float32."""
    signatures: list[str]
    """sacreBLEU's, for BLEU and chrF."""
    step_milliseconds: dict[str, dict[str, float]]
    """By precision, then position: median time of a decoder step of 8 sentences and 4 hypotheses."""
    samples: list[Sample]
    """For the server to replay."""
    machine: dict[str, str]
    """Where this was measured."""


class Graphs(NamedTuple):
    """Loaded graphs of one precision."""

    precision: str
    model: OnnxModel


def certify(
    checkpoint: Checkpoint,
    graphs: Sequence[Graphs],
    pairs: Sequence[Pair],
    settings: ExportSettings,
    shortlisted: ShortlistedModel | None = None,
) -> Certificate:
    """Measure graphs against torch.

    Args:
        checkpoint: What was exported.
        graphs: float32 first; the last is what is shipped.
        pairs: Held-out pairs.
        settings: How much to measure, and what is allowed.
        shortlisted: What is shipped for decoding with fewer pieces, if it is.

    Raises:
        ParityError: A measure is outside its limit.
    """
    sentences = [checkpoint.source_ids(pair.source) for pair in pairs]
    shipped = graphs[-1]
    tests = {name: read_usable_pairs(checkpoint, path) for name, path in settings.test.items()}
    parity = {
        g.precision: compare(
            checkpoint.model, g.model, sentences[: settings.parity_sentences], beam_size=settings.beam_size
        )
        for g in tqdm(graphs, desc="parity", file=sys.stderr)
    }
    _require_parity(parity["float32"], settings)
    evaluated = min(settings.evaluation_sentences, len(pairs))
    outputs: dict[str, Sequence[Sequence[Hypothesis]]]
    outputs = {"torch_float32": _torch_translations(checkpoint, sentences[:evaluated], settings)}
    # Those that the precisions are compared by begin with those that are scored: no graph translates a pair twice.
    compared = max(evaluated, settings.test_sentences) if len(graphs) > 1 else evaluated
    valid = _by_precision(graphs, sentences[:compared], settings)
    outputs |= {f"onnx_{precision}": found[:evaluated] for precision, found in valid.items()}
    if shortlisted:
        outputs["shortlist"] = _onnx_translations(shortlisted, sentences[:evaluated], settings)
    scores = {name: _score(checkpoint, found, pairs[:evaluated]) for name, found in outputs.items()}
    shipped_quality: dict[str, dict[str, float]] = {}
    if len(graphs) > 1:
        shipped_quality["valid"] = _compare_precisions(checkpoint, valid, pairs, settings)
        for name, test in tests.items():
            ids = [checkpoint.source_ids(pair.source) for pair in test[: settings.test_sentences]]
            found = _by_precision(graphs, ids, settings)
            shipped_quality[name] = _compare_precisions(checkpoint, found, test, settings)
    require_quality(shipped_quality, shipped.precision, settings)
    return Certificate(
        parity={precision: result._asdict() for precision, result in parity.items()},
        quality={name: {"bleu": round(s.bleu, 3), "chrf": round(s.chrf, 3)} for name, s in scores.items()},
        quality_sentences=evaluated,
        shipped_quality=shipped_quality,
        signatures=[scores["torch_float32"].bleu_signature, scores["torch_float32"].chrf_signature],
        step_milliseconds={g.precision: _step_times(g.model) for g in graphs},
        samples=_samples(checkpoint, shipped.model, pairs, outputs, settings),
        machine=_machine(),
    )


def _step_times(model: OnnxModel) -> dict[str, float]:
    positions = [position for position in (10, 200) if position < model.config.max_positions]
    return {str(position): round(step_milliseconds(model, position), 3) for position in positions}


def _require_parity(parity: Parity, settings: ExportSettings) -> None:
    if parity.max_abs_difference >= settings.max_float32_difference:
        raise ParityError(
            f"float32 graphs differ from torch by {parity.max_abs_difference:.2e} nats, "
            f"the limit is {settings.max_float32_difference:.0e}"
        )
    if parity.token_agreement < 1.0:
        raise ParityError(
            f"float32 graphs give other tokens than torch for {1 - parity.token_agreement:.0%} of sentences"
        )


def read_usable_pairs(checkpoint: Checkpoint, path: Path) -> list[Pair]:
    """Read the pairs whose both sides fit the model.

    Raises:
        CorpusError: The file cannot be read, or no pair fits.
    """
    limit = checkpoint.model.config.max_positions
    pairs = [
        pair
        for pair in read_pairs(path)
        if pair.source
        and pair.target
        and len(checkpoint.source_ids(pair.source)) <= limit
        and len(checkpoint.target_tokenizer.encode(pair.target)) <= limit
    ]
    if not pairs:
        raise CorpusError(f"{path}: no pair fits the model's {limit} positions")
    return pairs


def _compare_precisions(
    checkpoint: Checkpoint, found: ByPrecision, pairs: Sequence[Pair], settings: ExportSettings
) -> dict[str, float]:
    """Return BLEU and chrF of each precision on the first of the same pairs."""
    pairs = pairs[: settings.test_sentences]
    quality: dict[str, float] = {"sentences": len(pairs)}
    for precision, translations in found.items():
        scores = _score(checkpoint, translations[: len(pairs)], pairs)
        quality |= {f"{precision}_bleu": round(scores.bleu, 3), f"{precision}_chrf": round(scores.chrf, 3)}
    return quality


def require_quality(
    shipped_quality: Mapping[str, Mapping[str, float]], precision: str, settings: ExportSettings
) -> None:
    """Refuse graphs that translate otherwise than the float32 ones.

    Args:
        shipped_quality: As in the certificate.
        precision: Of what is shipped.
        settings: Hold the limits.

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


def _torch_translations(
    checkpoint: Checkpoint, sentences: Sequence[Sequence[int]], settings: ExportSettings
) -> list[list[Hypothesis]]:
    return translate_ids(
        checkpoint.model, sentences, beam_size=settings.beam_size, length_penalty=settings.length_penalty
    )


def _by_precision(
    graphs: Sequence[Graphs], sentences: Sequence[Sequence[int]], settings: ExportSettings
) -> ByPrecision:
    return {g.precision: _onnx_translations(g.model, sentences, settings) for g in graphs}


def _onnx_translations(
    model: OnnxModel, sentences: Sequence[Sequence[int]], settings: ExportSettings
) -> list[list[Hypothesis]]:
    return translate_by_length(sentences, lambda batch: _translate(model, batch, settings))


def _translate(model: OnnxModel, batch: Sequence[Sequence[int]], settings: ExportSettings) -> list[list[Hypothesis]]:
    return translate_batch(
        model,
        batch,
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
        max_target_length=target_limit(batch, model.config.max_positions),
    )


def _score(checkpoint: Checkpoint, found: Sequence[Sequence[Hypothesis]], pairs: Sequence[Pair]) -> Scores:
    texts = [checkpoint.target_tokenizer.decode(hypotheses[0].target_ids) for hypotheses in found]
    return score_translations(texts, [pair.target for pair in pairs], checkpoint.metadata.target_language)


def _samples(
    checkpoint: Checkpoint,
    model: OnnxModel,
    pairs: Sequence[Pair],
    outputs: ByPrecision,
    settings: ExportSettings,
) -> list[Sample]:
    """Choose sentences translated alike by all graphs: rounding on other machines will not change them."""
    samples: list[Sample] = []
    for index, pair in enumerate(pairs[: len(outputs["torch_float32"])]):
        best = {tuple(found[index][0].target_ids) for found in outputs.values()}
        ids = checkpoint.source_ids(pair.source)
        if len(best) == 1 and 4 <= len(ids) <= 40:
            found = _translate(model, [ids], settings)[0][0].target_ids  # alone, as the server replays it
            if tuple(found) in best:
                samples.append(
                    Sample(
                        source=pair.source,
                        source_ids=ids,
                        target_ids=found,
                        target=checkpoint.target_tokenizer.decode(found),
                        beam_size=settings.beam_size,
                        length_penalty=settings.length_penalty,
                    )
                )
        if len(samples) == SAMPLES:
            return samples
    if not samples:
        raise ParityError("no sentence is translated alike by all graphs")
    return samples


def _machine() -> dict[str, str]:
    packages = ("torch", "onnx", "onnxruntime", "sentencepiece", "sacrebleu")
    return {"platform": platform.machine(), "python": platform.python_version()} | {p: version(p) for p in packages}
