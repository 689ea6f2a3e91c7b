"""The choice of the sentences that a server replays before it serves a bundle."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.export.certification.certificate import ParityError, Sample
from xuanzang.export.certification.quality import Translations, translate_together
from xuanzang.export.certification.runner import OnnxModel
from xuanzang.export.examples import Example
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.search import SearchRules

SAMPLES = 8
"""Sentences that the server replays, at most: no more than torch has confirmed."""


def choose_samples(
    checkpoint: Checkpoint,
    model: OnnxModel,
    examples: Sequence[Example],
    found: Sequence[Translations],
    settings: ExportSettings,
    rules: SearchRules,
) -> list[Sample]:
    """Choose sentences that all graphs translate alike: rounding on other machines will not change them.

    Args:
        checkpoint: Exported model.
        model: The shipped graphs, open.
        examples: Sentences.
        found: Translations of the first of them, by each of the graphs.
        settings: Settings of the export.
        rules: When searches end.

    Raises:
        ParityError: There is no such sentence.
    """
    samples: list[Sample] = []
    for example, *translations in zip(examples, *found, strict=False):
        best = {tuple(hypotheses[0].target_ids) for hypotheses in translations}
        if len(best) == 1 and 4 <= len(example.source_ids) <= 40:
            alone = translate_together(model, [example], settings, rules)[0][0].target_ids  # as the server replays it
            if tuple(alone) in best:
                samples.append(_sample(checkpoint, example, alone, settings))
        if len(samples) == min(SAMPLES, settings.parity_sentences):
            break
    if not samples:
        raise ParityError("no sentence is translated alike by all graphs")
    return samples


def _sample(checkpoint: Checkpoint, example: Example, target_ids: list[int], settings: ExportSettings) -> Sample:
    return Sample(
        source=example.source,
        source_ids=example.source_ids,
        target_ids=target_ids,
        target=checkpoint.target_tokenizer.decode(target_ids),
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
    )
