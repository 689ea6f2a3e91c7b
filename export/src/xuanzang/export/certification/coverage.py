"""What the sentences of an export leave unknown."""

from __future__ import annotations

from xuanzang.export.examples import Examples
from xuanzang.model.checkpoint import Checkpoint

_FEW_SENTENCES = 200
"""Below this number a loss of int8 has to be large to be seen."""
_NAMED = 4
"""Directions that are named; more would say less."""


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
