"""The sentences of an export: what they leave unknown, and the samples that a server replays."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.export.certification.certificate import ParityError, Sample
from xuanzang.export.certification.quality import Translations, translate_together
from xuanzang.export.certification.runner import OnnxModel
from xuanzang.export.examples import Example, Examples
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.search import Hypothesis, SearchRules

_FEW_SENTENCES = 200
"""Below this number a loss of int8 has to be large to be seen."""
_NAMED = 4
"""Directions that are named; more would say less."""
SAMPLES = 8
"""Sentences that the server replays, at most: only sentences that torch has confirmed."""
_FAR_AHEAD = 0.02
"""Lead of a hypothesis that no processor changes, in nats: between AVX2 and AVX-512 scores differ by up to 0.001."""


def not_measured(checkpoint: Checkpoint, examples: Examples) -> list[str]:
    """Say what a certificate does not.

    Args:
        checkpoint: Exported model.
        examples: Sentences that all precisions translated.

    Returns:
        A sentence for each thing.
    """
    gaps = []
    if examples.kind != "pairs":
        gaps.append(
            "How good the translations are: there were no references, so precisions were compared with each other only "
            "(--valid measures it)."
        )
    if examples.kind == "sample":
        gaps.append(
            "Your texts: everything was measured on, and int8 ranges were taken from, plain everyday sentences of the "
            "exporter (--texts takes sentences of yours)."
        )
    metadata, measured = checkpoint.metadata, examples.directions
    directions = len(metadata.source_languages) * len(metadata.target_languages)
    if len(measured) < directions:
        named = f", all but {', '.join(measured)}" if len(measured) <= _NAMED else ""
        gaps.append(f"{directions - len(measured)} of {directions} directions{named}.")
    if (compared := len(examples.sentences)) < _FEW_SENTENCES:
        gaps.append(f"Small losses of the number format: {compared} sentences show large ones only.")
    return gaps


def choose_samples(
    checkpoint: Checkpoint,
    model: OnnxModel,
    examples: Sequence[Example],
    found: Sequence[Translations],
    settings: ExportSettings,
    rules: SearchRules,
) -> list[Sample]:
    """Choose sentences that all graphs translate alike, and whose best hypotheses are far ahead of the second.

    Other processors add floats in another order, which must not change the best hypothesis. Where too few sentences
    are that clear, those with the greatest lead are taken; empty translations, which show little, come last.

    Args:
        checkpoint: Exported model.
        model: The shipped graphs, open.
        found: Translations of the first of them, by each of the graphs.
        rules: When searches end.

    Raises:
        ParityError: There is no such sentence.
    """
    alike = [
        (example, translations)
        for example, *translations in zip(examples, *found, strict=False)
        if 4 <= len(example.source_ids) <= 40 and len({tuple(best.target_ids) for best, *_ in translations}) == 1
    ]
    alike.sort(key=lambda one: _clearness(one[1]), reverse=True)
    samples: list[Sample] = []
    for example, translations in alike:
        alone = translate_together(model, [example], settings, rules)[0][0].target_ids  # as the server replays it
        if alone == translations[0][0].target_ids:
            samples.append(_sample(checkpoint, example, alone, settings))
        if len(samples) == min(SAMPLES, settings.parity_sentences):
            break
    if not samples:
        raise ParityError("no sentence is translated alike by all graphs")
    return samples


def _clearness(translations: Translations) -> tuple[bool, float]:
    is_something = all(best.target_ids for best, *_ in translations)
    return is_something, min(_FAR_AHEAD, *map(_lead, translations))


def _lead(hypotheses: Sequence[Hypothesis]) -> float:
    """Return by how much the best hypothesis is better than the second, in nats; 0 if nothing else has finished."""
    return hypotheses[0].score - hypotheses[1].score if len(hypotheses) > 1 else 0.0


def _sample(checkpoint: Checkpoint, example: Example, target_ids: list[int], settings: ExportSettings) -> Sample:
    return Sample(
        source=example.source,
        source_ids=example.source_ids,
        target_ids=target_ids,
        target=checkpoint.target_tokenizer.decode(target_ids),
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
    )
