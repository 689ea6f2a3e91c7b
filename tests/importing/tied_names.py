"""Model directories whose one table of embeddings has any of the names that files give it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from safetensors.torch import load_file, save_file

TABLES = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)


def renamed(directory: Path) -> Iterator[str]:
    """Write the weights of a directory with its one table under each of the names, and yield the name."""
    tensors = load_file(directory / "model.safetensors")
    [table] = [tensors.pop(name) for name in TABLES if name in tensors]
    for name in TABLES:
        save_file(tensors | {name: table}, directory / "model.safetensors")
        yield name
