"""The export of an imported checkpoint through the command of a user."""

from __future__ import annotations

from pathlib import Path

from xuanzang.export.__main__ import main


def run_export(checkpoint: Path, repository: Path, **flags: object) -> Path:
    """Export a checkpoint of random weights with few sentences, and return the repository."""
    few: dict[str, object] = {
        "parity_sentences": 5,
        "evaluation_sentences": 48,
        "max_bleu_change": 100,  # of random weights it means nothing
        "max_chrf_change": 100,
    }
    named = {"checkpoint": checkpoint, "repository": repository, **few, **flags}
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
    assert main(["export", *arguments]) == 0
    return repository
