"""Directories of NLLB-200's layout with random weights, of any shape."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor

LANGUAGES = ("arb_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "hin_Deva", "jpn_Jpan", "rus_Cyrl", "zho_Hans")
PAD, EOS, SPECIAL = 1, 2, 4
_PEAK = 0.5
"""Gain of the last norm: one token has most of the probability, so that rounding does not change translations."""

_SAMPLE_PIECES = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a model."""

    vocab_size: int
    d_model: int
    layers: int
    """Blocks of the encoder, and of the decoder."""
    d_ff: int
    heads: int


SHAPES = {
    "tiny": Shape(vocab_size=1000, d_model=64, layers=2, d_ff=128, heads=4),
    "77m": Shape(vocab_size=65_001, d_model=512, layers=6, d_ff=2048, heads=8),
    "600m": Shape(vocab_size=256_206, d_model=1024, layers=12, d_ff=4096, heads=16),
}
"""A test's, that of opus-mt-zh-en, and that of NLLB-200-distilled-600M."""


def write_random_directory(folder: Path, shape: Shape) -> None:
    """Write config, tokeniser and weights, which repeat a token and never end by themselves."""
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    save_file(dict(_weights(shape)), folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_config(shape)), encoding="utf-8")
    first = shape.vocab_size - len(LANGUAGES) - 1
    added = {str(first + number): {"content": name} for number, name in enumerate((*LANGUAGES, "<mask>"))}
    facts = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": [*LANGUAGES]}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts | {"added_tokens_decoder": added}))
    # Ids are SentencePiece's and one more.
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(first - 1))


def _config(shape: Shape) -> dict[str, Any]:
    sides = {f"{side}_{part}": value for side in ("encoder", "decoder") for part, value in _sizes(shape).items()}
    return sides | {
        "architectures": ["M2M100ForConditionalGeneration"],
        "model_type": "m2m_100",
        "vocab_size": shape.vocab_size,
        "d_model": shape.d_model,
        "max_position_embeddings": 1024,
        "activation_function": "relu",
        "scale_embedding": True,
        "pad_token_id": PAD,
        "bos_token_id": 0,
        "eos_token_id": EOS,
        "decoder_start_token_id": EOS,
    }


def _sizes(shape: Shape) -> dict[str, int]:
    return {"layers": shape.layers, "ffn_dim": shape.d_ff, "attention_heads": shape.heads}


def _weights(shape: Shape) -> Iterator[tuple[str, Tensor]]:
    embedding = torch.randn(shape.vocab_size, shape.d_model) * shape.d_model**-0.5
    embedding[[PAD, EOS]] = 0.0
    yield "model.shared.weight", embedding
    for side in ("encoder", "decoder"):
        for layer in range(shape.layers):
            yield from _block(f"model.{side}.layers.{layer}.", shape, crossed=side == "decoder")
        yield from _norm(f"model.{side}.layer_norm.", shape, _PEAK if side == "decoder" else 1.0)


def _block(prefix: str, shape: Shape, *, crossed: bool) -> Iterator[tuple[str, Tensor]]:
    for attention in ("self_attn", *(["encoder_attn"] if crossed else [])):
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _linear(f"{prefix}{attention}.{part}.", shape.d_model, shape.d_model)
        yield from _norm(f"{prefix}{attention}_layer_norm.", shape)
    yield from _linear(f"{prefix}fc1.", shape.d_model, shape.d_ff)
    yield from _linear(f"{prefix}fc2.", shape.d_ff, shape.d_model)
    yield from _norm(f"{prefix}final_layer_norm.", shape)


def _linear(prefix: str, size_in: int, size_out: int) -> Iterator[tuple[str, Tensor]]:
    # Small compared with the embedding, which the blocks add to.
    yield f"{prefix}weight", torch.randn(size_out, size_in) * 0.3 * size_in**-0.5
    yield f"{prefix}bias", torch.randn(size_out) * 0.01


def _norm(prefix: str, shape: Shape, gain: float = 1.0) -> Iterator[tuple[str, Tensor]]:
    yield f"{prefix}weight", torch.full((shape.d_model,), gain)
    yield f"{prefix}bias", torch.randn(shape.d_model) * 0.01


def sentencepiece_model(size: int) -> bytes:
    """Return a SentencePiece model of the given size: pieces of the exporter's sample, and made-up words."""
    model: Any = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined] # generated without types
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.normalizer_spec.add_dummy_prefix = True
    kinds = model.SentencePiece
    for piece, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    words = (f"▁w{number}" for number in range(size))
    pieces = [*_sample_pieces(), *words][: size - len(model.pieces)]
    for number, piece in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(number))
    content: bytes = model.SerializeToString()
    return content


def _sample_pieces() -> list[str]:
    """Return the characters of the exporter's sample and their merges, in order.

    Sentences are as long as in tokens of published models, or longer: 0.38 tokens for a letter of English, 0.52 for a
    character of Chinese.
    """
    lines = resources.files("xuanzang.export").joinpath("sample.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.partition("\t")[2] for line in lines]
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=content,
        model_type="bpe",
        vocab_size=_SAMPLE_PIECES,
        character_coverage=1.0,
        minloglevel=2,
    )
    trained = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
    merged = [trained.id_to_piece(number) for number in range(3, trained.vocab_size())]
    characters = sorted({"▁", *"".join(texts)} - {" "})
    return [*characters, *(piece for piece in merged if len(piece) > 1)]
