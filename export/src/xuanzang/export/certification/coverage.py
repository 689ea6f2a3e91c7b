"""What the sentences of an export leave unknown."""

from __future__ import annotations

from xuanzang.export.examples import Examples
from xuanzang.model.checkpoint import Checkpoint

_FEW_SENTENCES = 200
"""Below this number a loss of int8 has to be large to be seen."""


def not_measured(checkpoint: Checkpoint, examples: Examples, compared: int) -> list[str]:
    """Say what a certificate does not.

    Args:
        checkpoint: Exported model.
        examples: Sentences that were measured with.
        compared: Number of them that all precisions translated.

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
    metadata = checkpoint.metadata
    directions = len(metadata.source_languages) * len(metadata.target_languages)
    if (measured := len(examples.directions)) < directions:
        known = ", ".join(examples.directions)
        gaps.append(f"{directions - measured} of {directions} directions: measured were {known}.")
    if compared < _FEW_SENTENCES:
        gaps.append(f"Small losses of the number format: {compared} sentences show large ones only.")
    return gaps
