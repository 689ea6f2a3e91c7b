"""Models of many languages with random weights, as the hub has them: made with transformers, read without."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import sentencepiece
import torch
from safetensors.torch import load_file
from tiny_shape import TINY
from transformers import M2M100Config, M2M100ForConditionalGeneration, MBartConfig, MBartForConditionalGeneration
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

SPM = "sentencepiece.bpe.model"
NLLB_LANGUAGES = ("ace_Arab", "ace_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant")
MBART_LANGUAGES = ("ar_AR", "en_XX", "fr_XX", "zh_CN")
M2M_LANGUAGES = ("en", "fr", "ns", "zh")
EOS, PAD = 2, 1

_SCALES = {"q_proj": 2.5, "k_proj": 2.5, "out_proj": 3.0, "fc2": 3.0}
_PEAK, _END = 2.0, 4.0

Model: TypeAlias = M2M100ForConditionalGeneration | MBartForConditionalGeneration


def write_tokenizer(path: Path, texts: Sequence[str], *, kind: str = "bpe") -> None:
    """Train the SentencePiece model of both sides, without bytes, as these families do; mBART's is "unigram"."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(path.with_suffix("")),
        vocab_size=150,
        model_type=kind,
        character_coverage=0.99,
        hard_vocab_limit=False,
        minloglevel=2,
    )


def write_nllb(
    tokenizer: Path, folder: Path, *, legacy: bool = False, languages: Sequence[str] = NLLB_LANGUAGES, **settings: Any
) -> Model:
    """Write a model of NLLB-200 and return it; `settings` are those of `_write`."""
    pieces = _fairseq_pieces(tokenizer)
    table = [*pieces, *languages, "<mask>", "unused 0", "unused 1"]
    facts: dict[str, Any] = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": [*languages]}
    if legacy:
        facts["legacy_behaviour"] = True
    added = {str(number): {"content": table[number]} for number in range(len(pieces), len(table) - 2)}
    return _write(tokenizer, folder, len(table), facts | {"added_tokens_decoder": added}, **settings)


def write_m2m(
    tokenizer: Path, folder: Path, *, small: bool = False, every_language: bool = False, **settings: Any
) -> Model:
    """Write a model of M2M-100, or of SMaLL-100, and return it; `settings` are those of `_write`.

    With every language it has the 100 of M2M-100, and no file that lists them.
    """
    languages = FAIRSEQ_LANGUAGE_CODES["m2m100"] if every_language else M2M_LANGUAGES
    pieces = _fairseq_pieces(tokenizer)
    pieces[10], pieces[20] = pieces[20], pieces[10]  # ids of its own
    facts: dict[str, Any] = {"tokenizer_class": "SMALL100Tokenizer" if small else "M2M100Tokenizer"}
    model = _write(tokenizer, folder, len(pieces) + len(languages) + 8, facts, **settings)
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    if not every_language:
        tokens = {"additional_special_tokens": [f"__{name}__" for name in languages]}
        (folder / "special_tokens_map.json").write_text(json.dumps(tokens))
    return model


def write_mbart(
    tokenizer: Path,
    folder: Path,
    *,
    tokenizer_class: str = "MBart50Tokenizer",
    languages: Sequence[str] = MBART_LANGUAGES,
    **settings: Any,
) -> Model:
    """Write a model of mBART and return it; `settings` are those of `_write`."""
    size = len(_fairseq_pieces(tokenizer)) + len(languages) + 1
    facts = {"tokenizer_class": tokenizer_class, "additional_special_tokens": [*languages]}
    return _write(tokenizer, folder, size, facts, family="mbart", **settings)


def _fairseq_pieces(tokenizer: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    return ["<s>", "<pad>", "</s>", "<unk>", *(processor.id_to_piece(i) for i in range(3, processor.vocab_size()))]


def _write(
    tokenizer: Path,
    folder: Path,
    vocab_size: int,
    facts: dict[str, Any],
    *,
    family: str = "m2m_100",
    seed: int = 0,
    never: Sequence[int] = (),
    generation: dict[str, Any] | None = None,
    part_size: str = "1GB",
    **config: Any,
) -> Model:
    """Write a model with lively random weights, and return it.

    Args:
        tokenizer: SentencePiece model.
        vocab_size: Pieces and special tokens.
        facts: Contents of tokenizer_config.json.
        family: "m2m_100" or "mbart".
        never: Ids that are never generated, besides padding.
        generation: Settings of generation_config.json.
        part_size: Largest size of a file of weights.
        config: Fields of the configuration.
    """
    fields: dict[str, Any] = TINY | {
        "vocab_size": vocab_size,
        "activation_function": "relu",
        "decoder_start_token_id": EOS,
    }
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        if family == "mbart":
            model: Model = MBartForConditionalGeneration(MBartConfig(**(fields | config))).eval()
        else:
            model = M2M100ForConditionalGeneration(M2M100Config(**(fields | config))).eval()
        _enliven(model)
    model.generation_config.update(bad_words_ids=[[token_id] for token_id in (PAD, *never)], **(generation or {}))
    model.save_pretrained(folder, max_shard_size=part_size)
    shutil.copyfile(tokenizer, folder / SPM)
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return model


def pickle_weights(folder: Path) -> None:
    """Replace model.safetensors by pytorch_model.bin, as older repositories have it."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _enliven(model: Model) -> None:
    """Draw weights that make distributions peaked, and translations that differ and mostly end."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        elif "embed" in name:
            scaled = model.config.scale_embedding and "positions" not in name
            parameter.normal_(std=parameter.size(1) ** -0.5 if scaled else 1.0)
        else:
            # The blocks outweigh the embedding of the last token, which would be repeated.
            scale = next((scale for part, scale in _SCALES.items() if part in name), 1.0)
            parameter.normal_(std=scale * parameter.size(1) ** -0.5)
    _let_sentences_end(model)


def _let_sentences_end(model: Model) -> None:
    """Peak the logits, and shift that of the end token."""
    norm, table = model.model.decoder.layer_norm, model.lm_head.weight
    norm.weight.mul_(_PEAK * 32**0.5 / float(table.norm(dim=1).mean()) / norm.weight.numel() ** 0.5)
    end = table[EOS]
    norm.bias.add_(end * (_END / float(end @ end)))
