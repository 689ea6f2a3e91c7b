"""The model card, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.export.certification.certificate import Certificate
from xuanzang.export.settings import ExportSettings
from xuanzang.model.stored_checkpoint import ORIGIN_FILE, StoredCheckpoint


def model_card(checkpoint: StoredCheckpoint, certificate: Certificate, settings: ExportSettings, version: int) -> str:
    """Return the card: shape and origin of the model, measured quality, and the notes given with `--card`."""
    metadata = checkpoint.metadata
    return f"""# {settings.model}, version {version}

Translates from {_listed(metadata.source_languages)} to \
{_listed(metadata.target_languages)}.

| | |
|---|---|
{_rows(_facts(checkpoint, settings))}

{_quality(certificate, settings)}
{_cost_of_rounding(certificate, settings.precision)}
Signatures: {"; ".join(certificate.signatures)}

{_gaps(certificate)}{_notes(checkpoint, settings)}"""


def _facts(checkpoint: StoredCheckpoint, settings: ExportSettings) -> dict[str, str]:
    """Return the shape and the origin of the model."""
    config, metadata = checkpoint.config, checkpoint.metadata
    parameters = checkpoint.network.size
    shape = (
        f"Transformer, {config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder blocks, "
        f"width {config.d_model}, {config.norm}-norm, {config.positions.split('_')[0]} positions"
    )
    sharing = ", shared" if config.share_embeddings else ""
    return {
        "architecture": shape,
        "parameters": f"{parameters / 1e6:.1f} million",
        "vocabulary": f"{metadata.source_vocab_size} source and {metadata.target_vocab_size} target pieces{sharing}",
        "weights": settings.precision,
        **_origin(checkpoint),
    }


def _cost_of_rounding(certificate: Certificate, shipped: str) -> str:
    """Return a table of the quality in float32 and as shipped; empty if it was not compared."""
    precisions = {
        f"{name} ({q['sentences']:.0f})": f"{q['float32_bleu']:.2f} / {q['float32_chrf']:.2f} | "
        f"{q[f'{shipped}_bleu']:.2f} / {q[f'{shipped}_chrf']:.2f}"
        for name, q in certificate.shipped_quality.items()
    }
    if not precisions:
        return ""
    return f"""
What rounding the weights costs, BLEU / chrF of the same graphs:

| pairs | float32 | {shipped} |
|---|---|---|
{_rows(precisions)}
"""


def _quality(certificate: Certificate, settings: ExportSettings) -> str:
    how = f"beam {settings.beam_size}, length penalty {settings.length_penalty}"
    between = _between(certificate)
    if not certificate.quality:
        return f"{_agreement(certificate, settings)}\n\n({how}{between})"
    quality = {name: f"{s['bleu']:.2f} | {s['chrf']:.2f}" for name, s in certificate.quality.items()}
    return f"""Quality on {certificate.quality_sentences} held-out sentences{between}, {how}:

| | BLEU | chrF |
|---|---|---|
{_rows(quality)}"""


def _agreement(certificate: Certificate, settings: ExportSettings) -> str:
    """Say how alike the precisions translate, where nothing tells how well."""
    found = certificate.agreement
    if not found:
        return "The quality was not measured."
    return (
        f"The quality was not measured. Of {found['sentences']:.0f} sentences, {settings.precision} translates "
        f"{found['equal']:.0%} as float32 does; chrF of its translations against those of float32 is "
        f"{found['chrf']:.1f}."
    )


def _gaps(certificate: Certificate) -> str:
    gaps = "\n".join(f"* {gap}" for gap in certificate.not_measured)
    return f"## What was not measured\n\n{gaps}\n\n" if gaps else ""


def _between(certificate: Certificate) -> str:
    """Say between which languages was translated."""
    if len(certificate.directions) == 1:
        return f" from {certificate.directions[0]}"
    return f" in {len(certificate.directions)} directions"


def _origin(checkpoint: StoredCheckpoint) -> dict[str, str]:
    """Return the origin of the weights."""
    if imported := checkpoint.training.get("imported"):
        files = imported.get("files", {})
        return {
            "imported from": imported["name"],
            **({"commit": imported["revision"]} if imported.get("revision") else {}),
            "licence": imported["licence"] or "not stated",
            **{f"SHA-256 of `{name}`": f"`{digest}`" for name, digest in sorted(files.items())},
        }
    parent = checkpoint.training.get("parent", {})
    return {
        **({"trained further from": parent["name"]} if parent else {}),
        **({"licence of that": parent["licence"]} if parent.get("licence") else {}),
        "training pairs": f"{checkpoint.metadata.train_pairs:,}",
        "optimiser steps": f"{checkpoint.training.get('step', 0):,}",
    }


def _notes(checkpoint: StoredCheckpoint, settings: ExportSettings) -> str:
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
