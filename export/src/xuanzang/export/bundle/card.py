"""The model card, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.export.certification.certificate import Certificate
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import ORIGIN_FILE, Checkpoint
from xuanzang.model.data.dataset import PreparedMetadata


def model_card(checkpoint: Checkpoint, certificate: Certificate, settings: ExportSettings, version: int) -> str:
    """Return the card: shape and origin of the model, measured quality, and the notes given with `--card`."""
    config, metadata = checkpoint.model.config, checkpoint.metadata
    parameters = sum(parameter.numel() for parameter in checkpoint.model.parameters())
    shape = (
        f"Transformer, {config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder blocks, "
        f"width {config.d_model}, {config.norm}-norm, {config.positions.split('_')[0]} positions"
    )
    sharing = ", shared" if config.share_embeddings else ""
    facts = {
        "architecture": shape,
        "parameters": f"{parameters / 1e6:.1f} million",
        "vocabulary": f"{metadata.source_vocab_size} source and {metadata.target_vocab_size} target pieces{sharing}",
        "weights": settings.precision,
        **_origin(checkpoint),
    }
    quality = {name: f"{s['bleu']:.2f} | {s['chrf']:.2f}" for name, s in certificate.quality.items()}
    shipped = settings.precision
    precisions = {
        f"{name} ({q['sentences']:.0f})": f"{q['float32_bleu']:.2f} / {q['float32_chrf']:.2f} | "
        f"{q[f'{shipped}_bleu']:.2f} / {q[f'{shipped}_chrf']:.2f}"
        for name, q in certificate.shipped_quality.items()
    }
    compared = f"""
What rounding the weights costs, BLEU / chrF of the same graphs:

| pairs | float32 | {shipped} |
|---|---|---|
{_rows(precisions)}
"""
    return f"""# {settings.model}, version {version}

Translates from {_listed(metadata.source_languages)} to \
{_listed(metadata.target_languages)}.

| | |
|---|---|
{_rows(facts)}

Quality on {certificate.quality_sentences} held-out sentences{_pair(metadata)}, beam {settings.beam_size}, \
length penalty {settings.length_penalty}:

| | BLEU | chrF |
|---|---|---|
{_rows(quality)}
{compared if precisions else ""}
Signatures: {"; ".join(certificate.signatures)}

{_notes(checkpoint, settings)}"""


def _pair(metadata: PreparedMetadata) -> str:
    """Say which languages were measured, if the model has more than two."""
    if len(metadata.source_languages) == len(metadata.target_languages) == 1:
        return ""
    return f" from {metadata.source_language} to {metadata.target_language}"


def _origin(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the origin of the weights."""
    if imported := checkpoint.training.get("imported"):
        return {"imported from": imported["name"], "licence": imported["licence"] or "not stated"}
    return {
        "training pairs": f"{checkpoint.metadata.train_pairs:,}",
        "optimiser steps": f"{checkpoint.training.get('step', 0):,}",
    }


def _notes(checkpoint: Checkpoint, settings: ExportSettings) -> str:
    if settings.card:
        return settings.card.read_text(encoding="utf-8")
    origin = checkpoint.folder / ORIGIN_FILE
    if origin.is_file():
        return f"## Description of the imported model\n\n{origin.read_text(encoding='utf-8')}"
    return "No notes on data and limits were given.\n"


def _listed(languages: Sequence[str]) -> str:
    return ", ".join(languages)


def _rows(table: dict[str, str]) -> str:
    return "\n".join(f"| {name} | {value} |" for name, value in table.items())
