"""MarianMT models with random weights, as the hub has them: made with transformers, read without."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tiny_shape import TINY
from transformers import MarianConfig, MarianMTModel

EOS, UNK, PAD = "</s>", "<unk>", "<pad>"
SIDES = ("source", "target")


def write_tokenizers(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Train source.spm and target.spm as OPUS-MT does: with SentencePiece's own normalisation, without bytes."""
    for side, texts in zip(SIDES, zip(*pairs, strict=True), strict=True):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_prefix=str(folder / side),
            vocab_size=90,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")


def write_directory(
    tokenizers: Path,
    folder: Path,
    *,
    separate: bool = False,
    languages: Sequence[str] = (),
    seed: int = 0,
    never: Sequence[int] = (),
    source: str = "zho",
    generation: dict[str, Any] | None = None,
    **config: Any,
) -> MarianMTModel:
    """Write a model with lively random weights, and return it.

    Args:
        tokenizers: Folder of source.spm and target.spm.
        separate: Whether each side has a vocabulary of its own.
        languages: Names that the source vocabulary has pieces for, such as "cmn_Hans".
        never: Ids that are never generated, besides padding.
        generation: Other settings of generation_config.json.
        config: Fields of MarianConfig.
    """
    pieces = [_pieces(tokenizers / f"{side}.spm") for side in SIDES]
    shared = [*(f">>{name}<<" for name in languages), *dict.fromkeys(piece for side in pieces for piece in side)]
    tables = [[EOS, UNK, *side, PAD] for side in (pieces if separate else [shared, shared])]
    model = _model(tables, separate=separate, seed=seed, config=config)
    banned = [[token_id] for token_id in (model.config.pad_token_id, *never)]
    model.generation_config.update(bad_words_ids=banned, **(generation or {}))
    model.save_pretrained(folder)
    for name, table in zip(("vocab.json", "target_vocab.json")[: 1 + separate], tables, strict=False):
        ids = {piece: number for number, piece in enumerate(table)}
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
    for side in SIDES:
        shutil.copyfile(tokenizers / f"{side}.spm", folder / f"{side}.spm")
    facts = {"source_lang": source, "target_lang": "eng", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
    return model


def _pieces(path: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [processor.id_to_piece(number) for number in range(3, processor.vocab_size())]
    return [*pieces[:4], *pieces[5:]]  # a table may lack what the tokeniser knows


def _model(tables: list[list[str]], *, separate: bool, seed: int, config: dict[str, Any]) -> MarianMTModel:
    pad_id = len(tables[1]) - 1
    fields: dict[str, Any] = TINY | {
        "vocab_size": len(tables[0]),
        "decoder_vocab_size": len(tables[1]),
        "share_encoder_decoder_embeddings": not separate,
        "activation_function": "swish",
        "pad_token_id": pad_id,
        "decoder_start_token_id": pad_id,
        "eos_token_id": 0,
    }
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = MarianMTModel(MarianConfig(**(fields | config))).eval()
        torch.manual_seed(seed)
        _enliven(model)
    return model


def _enliven(model: MarianMTModel) -> None:
    """Draw weights that make distributions peaked, and translations that differ, mostly end and could hold padding."""
    last = f"model.decoder.layers.{model.config.decoder_layers - 1}."
    scales = {"q_proj": 2.5, "k_proj": 2.5, f"{last}fc": 3.0, "encoder_attn.out_proj": 3.0, "proj": 0.3, "fc": 0.3}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        elif "embed_positions" not in name:
            scale = next((scale for part, scale in scales.items() if part in name), 1.0)
            unscaled = "embed" in name and not model.config.scale_embedding
            parameter.normal_(std=1.0 if unscaled else scale * parameter.size(1) ** -0.5)
    model.model.decoder.layers[-1].final_layer_norm.weight.mul_(3)
    model.final_logits_bias.normal_(std=0.5)
    model.final_logits_bias[0, [model.config.eos_token_id, model.config.pad_token_id]] = torch.tensor([6.5, 4.0])
