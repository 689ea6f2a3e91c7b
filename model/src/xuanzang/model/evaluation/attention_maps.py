"""Attention of a model over a sentence, and the coverage of a source, which finds fluent but unrelated output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from tqdm import tqdm

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.evaluation.attention_pictures import Panel, save_with_matplotlib, svg
from xuanzang.model.network.attention import MultiHeadAttention
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.translation import translate_ids

Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMaps:
    """The attention weights of one sentence pair. Rows are queries and sum to 1, columns are keys."""

    source_pieces: list[str]
    """Source tokens, eos last."""
    target_input_pieces: list[str]
    """Tokens that the decoder reads, bos first."""
    target_output_pieces: list[str]
    """Tokens that the decoder predicts at the same positions, eos last."""
    encoder_self_attention: Weights
    """[layer, heads, source, source]."""
    decoder_self_attention: Weights
    """[layer, heads, target, target]; zero above the diagonal."""
    cross_attention: Weights
    """[layer, heads, target, source]."""

    def save(self, path: Path) -> None:
        """Write all numbers to .json or .npz, or the mean over heads as a picture to .png, .svg or .pdf.

        Raises:
            ValueError: The name has another ending.
            PictureError: matplotlib or a font is not installed, which .svg does not need.
        """
        writers: dict[str, Callable[[AttentionMaps, Path], None]] = {
            ".json": _save_json,
            ".npz": _save_npz,
            ".png": _save_picture,
            ".svg": _save_svg,
            ".pdf": _save_picture,
        }
        if path.suffix not in writers:
            raise ValueError(f"{path}: the name must end in one of {', '.join(writers)}")
        writers[path.suffix](self, path)


@torch.inference_mode()
def attention_maps(checkpoint: Checkpoint, source: str, target: str | None = None) -> AttentionMaps:
    """Return all attention weights of a sentence and its translation.

    Args:
        source: A sentence of the source language.
        target: Its translation; None lets the model translate it.

    Raises:
        SourceLengthError: The sentence has more tokens than the model takes.
    """
    model, device = checkpoint.model, checkpoint.model.output_projection.weight.device
    source_ids = checkpoint.source_ids(source)
    if target is None:
        [[best]] = translate_ids(model, [source_ids], beam_size=4, prefix_ids=checkpoint.target_prefix_ids)
        target_ids = [*best.target_ids, model.config.eos_id]
    else:
        target_ids = [*checkpoint.target_prefix_ids, *checkpoint.target_tokenizer.encode(target)]
    input_ids = [model.config.bos_id, *target_ids[:-1]]
    with _recorded_weights(model) as recorded:
        batch = torch.tensor([source_ids], device=device)
        model(batch, torch.ones_like(batch, dtype=torch.bool), torch.tensor([input_ids], device=device))
    return AttentionMaps(
        source_pieces=checkpoint.source_tokenizer.pieces(source_ids),
        target_input_pieces=checkpoint.target_tokenizer.pieces(input_ids),
        target_output_pieces=checkpoint.target_tokenizer.pieces(target_ids),
        encoder_self_attention=_stack(recorded, "encoder_layers", "self_attention"),
        decoder_self_attention=_stack(recorded, "decoder_layers", "self_attention"),
        cross_attention=_stack(recorded, "decoder_layers", "cross_attention"),
    )


@contextmanager
def _recorded_weights(model: Transformer) -> Iterator[dict[str, Weights]]:
    """Ask every attention for its weights while the block runs; yields them by module name, filled meanwhile."""
    recorded: dict[str, Weights] = {}

    def ask(
        _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs | {"need_weights": True}

    def record(name: str, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        recorded[name] = output[1][0].float().cpu().numpy()

    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, MultiHeadAttention):
                stack.callback(module.register_forward_pre_hook(ask, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(partial(record, name)).remove)
        yield recorded


def _stack(recorded: dict[str, Weights], layers: str, attention: str) -> Weights:
    names = [name for name in recorded if name.startswith(layers) and name.endswith(attention)]
    return np.stack([recorded[name] for name in names])


def _save_json(maps: AttentionMaps, path: Path) -> None:
    values = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(maps).items()}
    path.write_text(json.dumps(values, ensure_ascii=False) + "\n", encoding="utf-8")


def _save_npz(maps: AttentionMaps, path: Path) -> None:
    arrays: dict[str, Any] = {key: np.asarray(value) for key, value in asdict(maps).items()}
    np.savez_compressed(path, **arrays)


def _save_svg(maps: AttentionMaps, path: Path) -> None:
    path.write_text(svg(_panels(maps)), encoding="utf-8")


def _save_picture(maps: AttentionMaps, path: Path) -> None:
    save_with_matplotlib(_panels(maps), path)


def _panels(maps: AttentionMaps) -> list[list[Panel]]:
    """Return the mean over heads of every layer, a row for each kind of attention."""
    rows = (
        ("encoder", maps.encoder_self_attention, maps.source_pieces, maps.source_pieces),
        ("decoder", maps.decoder_self_attention, maps.target_input_pieces, maps.target_input_pieces),
        ("cross", maps.cross_attention, maps.target_output_pieces, maps.source_pieces),
    )
    return [
        [
            Panel(title=f"{title}, layer {layer}", weights=heads.mean(axis=0), queries=queries, keys=keys)
            for layer, heads in enumerate(weights)
        ]
        for title, weights, queries, keys in rows
    ]


LOW_COVERAGE = 0.6
"""Coverage below which a translation may have little to do with its source; docs/training.md says how surely."""


class Coverage(NamedTuple):
    """Coverage of the sources of a test set."""

    mean: float
    """Mean over sentences, 0 to 1."""
    low: int
    """Sentences whose coverage is below LOW_COVERAGE."""
    sentences: int

    def __str__(self) -> str:
        """Return one line for people."""
        return f"source covered by attention: {self.mean:.3f}; below {LOW_COVERAGE}: {self.low} of {self.sentences}"


def source_coverage(checkpoint: Checkpoint, source: str, translation: str) -> float:
    """Return the share of source tokens that the decoder attended to while it wrote a translation, 0 to 1.

    Of each source token counts the attention of all target tokens to it, averaged over layers and heads, at most 1; the
    result is the mean over tokens, eos left out.

    Args:
        translation: Its translation, by this model or not.

    Source: the coverage penalty of arXiv 1609.08144, equation 14, without its logarithm.
    """
    weights = attention_maps(checkpoint, source, translation).cross_attention.mean(axis=(0, 1))  # [target, source]
    return float(np.minimum(weights.sum(axis=0)[:-1], 1.0).mean())


def measure_coverage(checkpoint: Checkpoint, sources: Sequence[str], translations: Sequence[str]) -> Coverage:
    """Measure the coverage of a test set.

    Args:
        sources: Sentences, at least one.
        translations: Translations, one per sentence.
    """
    pairs = tqdm(zip(sources, translations, strict=True), "coverage", len(sources), leave=False, file=sys.stderr)
    found = [source_coverage(checkpoint, *pair) for pair in pairs]
    return Coverage(float(np.mean(found)), sum(value < LOW_COVERAGE for value in found), len(found))
