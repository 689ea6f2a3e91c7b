"""The model card."""

from __future__ import annotations

from xuanzang.export.certificate import Certificate
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import Checkpoint


def model_card(checkpoint: Checkpoint, certificate: Certificate, settings: ExportSettings, version: int) -> str:
    """Return the card as Markdown: what the model is, what was measured, and the notes given with `--card`."""
    config, metadata = checkpoint.model.config, checkpoint.metadata
    parameters = sum(parameter.numel() for parameter in checkpoint.model.parameters())
    notes = settings.card.read_text(encoding="utf-8") if settings.card else "No notes on data and limits were given.\n"
    rows = "\n".join(f"| {name} | {s['bleu']:.2f} | {s['chrf']:.2f} |" for name, s in certificate.quality.items())
    return f"""# {settings.model}, version {version}

Translates from {metadata.source_language} to {metadata.target_language}.

| | |
|---|---|
| architecture | Transformer, {config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder blocks, width {config.d_model}, {config.norm}-norm, {config.positions} positions |
| parameters | {parameters / 1e6:.1f} million |
| vocabulary | {metadata.source_vocab_size} source and {metadata.target_vocab_size} target pieces{", shared" if metadata.share_vocabulary else ""} |
| weights | {settings.precision} |
| training pairs | {metadata.train_pairs:,} |
| optimiser steps | {checkpoint.training.get("step", 0):,} |

Quality on {certificate.quality_sentences} held-out sentences (beam {settings.beam_size}, length penalty {settings.length_penalty}):

| | BLEU | chrF |
|---|---|---|
{rows}

Signatures: {"; ".join(certificate.signatures)}

{notes}"""
