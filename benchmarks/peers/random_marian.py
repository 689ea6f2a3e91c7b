"""Directories of OPUS-MT's layout with random weights, whose translations never end by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor
from transformers import MarianConfig, MarianMTModel

from benchmarks.peers.random_directory import Shape, sentencepiece_model

END = 0
"""Id of the end; that of padding is the last."""
FIRST_WORD = 2
"""Id of the first piece that is no special one."""
_PEAK = 0.7
"""Gain of the last norm: one token has most of the probability, so that rounding seldom changes translations."""
_NEVER = -100.0


def write_random_marian(folder: Path, shape: Shape) -> None:
    """Write a directory that transformers, its peers and our import can read.

    Args:
        shape: Sizes of the model.
    """
    folder.mkdir(parents=True)
    model = _model(shape)
    model.generation_config.update(bad_words_ids=[[model.config.pad_token_id]], max_length=512)
    model.save_pretrained(folder)
    tokenizer = sentencepiece_model(shape.vocab_size)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(tokenizer)
    processor = SentencePieceProcessor(model_proto=tokenizer)
    words = [processor.id_to_piece(number) for number in range(3, shape.vocab_size)]
    table = {piece: number for number, piece in enumerate(["</s>", "<unk>", *words, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(table), encoding="utf-8")
    facts = {"tokenizer_class": "MarianTokenizer", "source_lang": "zho", "target_lang": "eng"}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")


@torch.no_grad()
def _model(shape: Shape) -> MarianMTModel:
    pad_id = shape.vocab_size - 1
    sides = {f"{side}_{part}": value for side in ("encoder", "decoder") for part, value in _sizes(shape).items()}
    config = MarianConfig(
        **sides,
        vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad_id,
        decoder_start_token_id=pad_id,
        eos_token_id=END,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    torch.manual_seed(0)
    _draw_weights(model)
    # The embedding of padding begins every translation; that of OPUS-MT's models is zero, as CTranslate2 presumes.
    model.get_input_embeddings().weight[pad_id] = 0.0
    model.final_logits_bias[0, END] = _NEVER
    return model


def _sizes(shape: Shape) -> dict[str, int]:
    return {"layers": shape.layers, "ffn_dim": shape.d_ff, "attention_heads": shape.heads}


def _draw_weights(model: MarianMTModel) -> None:
    """Draw weights that let the source decide on the first token, and each token on the next, mostly itself."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.01)
        elif "embed_positions" not in name:
            # Small compared with the embedding, which the blocks add to.
            scale = 1.0 if parameter.size(0) == model.config.vocab_size else 0.3
            parameter.normal_(std=scale * parameter.size(1) ** -0.5)
    model.model.decoder.layers[-1].final_layer_norm.weight.mul_(_PEAK)
