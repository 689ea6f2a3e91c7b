"""Measurement of graphs against torch, and the certificate that it yields."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from tqdm import tqdm

from xuanzang.export.certification.certificate import Certificate, ParityError, Sample
from xuanzang.export.certification.parity import Parity, compare, step_milliseconds
from xuanzang.export.certification.quality import (
    Translations,
    compare_precisions,
    onnx_translations,
    require_quality,
    score,
    torch_translations,
    translate_together,
)
from xuanzang.export.certification.runner import OnnxModel, open_graphs, open_shortlisted
from xuanzang.export.graphs.build import GraphSet
from xuanzang.export.pairs import read_usable_pairs
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.corpus import Pair

SAMPLES = 8
"""Sentences that the server replays before it serves the bundle."""

Models = Mapping[str, OnnxModel]
"""Open graphs by precision: float32 first, the shipped last."""


def certify(
    checkpoint: Checkpoint, graphs: Sequence[GraphSet], pairs: Sequence[Pair], settings: ExportSettings
) -> Certificate:
    """Measure graphs against torch.

    Args:
        checkpoint: Exported model.
        graphs: Graphs by precision: float32 first, the shipped last.
        pairs: Held-out pairs.
        settings: Settings with the numbers of sentences and the limits.

    Raises:
        CorpusError: The pairs of a test cannot be read.
        ParityError: A measure is outside its limit.
    """
    models = {one.precision: open_graphs(one, checkpoint.model.config) for one in graphs}
    shipped = graphs[-1]
    sentences = [checkpoint.source_ids(pair.source) for pair in pairs]
    tests = {name: read_usable_pairs(checkpoint, path) for name, path in settings.test.items()}
    parity = _parity(checkpoint, models, sentences, settings)
    _require_parity(parity["float32"], settings)
    by_precision = _by_precision(
        checkpoint, models, sentences[: _compared(len(pairs), len(models), settings)], settings
    )
    outputs = _outputs(checkpoint, by_precision, shipped, sentences[: settings.evaluation_sentences], settings)
    scores = {name: score(checkpoint, found, pairs[: len(found)]) for name, found in outputs.items()}
    shipped_quality: dict[str, dict[str, float]] = {}
    if len(models) > 1:
        shipped_quality["valid"] = compare_precisions(checkpoint, by_precision, pairs, settings)
        shipped_quality |= {name: _test(checkpoint, models, test, settings) for name, test in tests.items()}
    require_quality(shipped_quality, shipped.precision, settings)
    return Certificate(
        parity={precision: result._asdict() for precision, result in parity.items()},
        quality={name: {"bleu": round(s.bleu, 3), "chrf": round(s.chrf, 3)} for name, s in scores.items()},
        quality_sentences=min(settings.evaluation_sentences, len(pairs)),
        shipped_quality=shipped_quality,
        signatures=[scores["torch_float32"].bleu_signature, scores["torch_float32"].chrf_signature],
        step_milliseconds={precision: _step_times(model) for precision, model in models.items()},
        samples=_samples(checkpoint, models[shipped.precision], pairs, outputs, settings),
        machine=_machine(),
    )


def _parity(
    checkpoint: Checkpoint, models: Models, sentences: Sequence[Sequence[int]], settings: ExportSettings
) -> dict[str, Parity]:
    return {
        precision: compare(
            checkpoint.model,
            model,
            sentences[: settings.parity_sentences],
            beam_size=settings.beam_size,
            prefix_ids=checkpoint.target_prefix_ids,
        )
        for precision, model in tqdm(models.items(), desc="parity", file=sys.stderr)
    }


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


def _by_precision(
    checkpoint: Checkpoint, models: Models, sentences: Sequence[Sequence[int]], settings: ExportSettings
) -> dict[str, Translations]:
    return {precision: onnx_translations(checkpoint, model, sentences, settings) for precision, model in models.items()}


def _compared(pairs: int, precisions: int, settings: ExportSettings) -> int:
    """Return the number of pairs that all precisions translate.

    The pairs that precisions are compared by begin with those that are scored, so that none is translated twice.
    """
    wanted = (settings.evaluation_sentences, settings.test_sentences if precisions > 1 else 0)
    return min(max(wanted), pairs)


def _outputs(
    checkpoint: Checkpoint,
    by_precision: Mapping[str, Translations],
    shipped: GraphSet,
    sentences: Sequence[Sequence[int]],
    settings: ExportSettings,
) -> dict[str, Translations]:
    """Return the translations of the same sentences, by name in `Certificate.quality`."""
    outputs = {"torch_float32": torch_translations(checkpoint, sentences, settings)}
    outputs |= {f"onnx_{precision}": found[: len(sentences)] for precision, found in by_precision.items()}
    if shortlisted := open_shortlisted(shipped, checkpoint.model.config):
        outputs["shortlist"] = onnx_translations(checkpoint, shortlisted, sentences, settings)
    return outputs


def _test(checkpoint: Checkpoint, models: Models, test: Sequence[Pair], settings: ExportSettings) -> dict[str, float]:
    ids = [checkpoint.source_ids(pair.source) for pair in test[: settings.test_sentences]]
    return compare_precisions(checkpoint, _by_precision(checkpoint, models, ids, settings), test, settings)


def _step_times(model: OnnxModel) -> dict[str, float]:
    positions = [position for position in (10, 200) if position < model.config.max_positions]
    return {str(position): round(step_milliseconds(model, position), 3) for position in positions}


def _samples(
    checkpoint: Checkpoint,
    model: OnnxModel,
    pairs: Sequence[Pair],
    outputs: Mapping[str, Translations],
    settings: ExportSettings,
) -> list[Sample]:
    """Choose sentences that all graphs translate alike: rounding on other machines will not change them."""
    samples: list[Sample] = []
    for pair, *found in zip(pairs, *outputs.values(), strict=False):
        ids = checkpoint.source_ids(pair.source)
        best = {tuple(hypotheses[0].target_ids) for hypotheses in found}
        if len(best) == 1 and 4 <= len(ids) <= 40:
            alone = translate_together(checkpoint, model, [ids], settings)[0][0].target_ids  # as the server replays it
            if tuple(alone) in best:
                samples.append(_sample(checkpoint, pair.source, ids, alone, settings))
        if len(samples) == SAMPLES:
            break
    if not samples:
        raise ParityError("no sentence is translated alike by all graphs")
    return samples


def _sample(
    checkpoint: Checkpoint, source: str, source_ids: list[int], target_ids: list[int], settings: ExportSettings
) -> Sample:
    return Sample(
        source=source,
        source_ids=source_ids,
        target_ids=target_ids,
        target=checkpoint.target_tokenizer.decode(target_ids),
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
    )


def _machine() -> dict[str, str]:
    packages = ("torch", "onnx", "onnxruntime", "sentencepiece", "sacrebleu")
    return {"platform": platform.machine(), "python": platform.python_version()} | {p: version(p) for p in packages}
