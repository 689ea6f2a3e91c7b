"""The configuration of the network that a model directory describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xuanzang.model.importing.directory import Directory
from xuanzang.model.importing.family import Family
from xuanzang.model.network.config import Activation, ConfigError, TransformerConfig

_ACTIVATIONS: dict[object, Activation] = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


_SIZES = {
    "d_model": "d_model",
    "num_heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "max_positions": "max_position_embeddings",
}
_SPECIAL_IDS = {"bos_id": "decoder_start_token_id", "eos_id": "eos_token_id", "pad_id": "pad_token_id"}


def network_config(directory: Directory, family: Family, unk_id: int, faults: list[str]) -> TransformerConfig | None:
    """Return the configuration of the network; which tables are shared and tied follows from the weights.

    Args:
        unk_id: Id of pieces outside the vocabulary.
        faults: List to which faults are added.

    Returns:
        The configuration, None if there are faults.
    """
    config, (source_size, target_size) = directory.config, directory.vocab_sizes
    sizes: dict[str, Any] = {ours: config.get(theirs) for ours, theirs in _SIZES.items()}
    ids: dict[str, Any] = {ours: directory.generation_setting(theirs) for ours, theirs in _SPECIAL_IDS.items()}
    found = [*_number_faults(directory), *_unsupported(directory, family)]
    faults += found
    if found:
        return None
    try:
        return TransformerConfig(
            source_vocab_size=source_size,
            target_vocab_size=target_size,
            **sizes,
            dropout=float(config.get("dropout", 0.1)),
            norm=family.norm,
            positions=family.positions,
            embedding_norm=family.embedding_norm,
            activation=_ACTIVATIONS[config["activation_function"]],
            scale_embeddings=bool(config.get("scale_embedding")),
            share_embeddings=source_size == target_size,
            unk_id=unk_id,
            **ids,
            banned_ids=tuple(words[0] for words in _bad_words(directory)),
        )
    except ConfigError as error:
        faults.append(f"config.json: {error}")
        return None


def _number_faults(directory: Directory) -> Iterator[str]:
    smallest = min((size for size in directory.vocab_sizes if type(size) is int), default=0)
    sizes = dict(zip(("vocab_size", "decoder_vocab_size"), directory.vocab_sizes, strict=True))
    sizes |= {name: directory.config.get(name) for name in _SIZES.values()}
    ids = {name: directory.generation_setting(name) for name in _SPECIAL_IDS.values()}
    for name, value in (sizes | ids).items():
        if value is None:
            yield f"config.json lacks {name}"
        elif type(value) is not int or value < 0:
            yield f"config.json: {name} is {value!r}, not a number"
        elif name in ids and value >= smallest:
            yield f"config.json: {name} is {value}, the vocabulary has {smallest}"


def _unsupported(directory: Directory, family: Family) -> Iterator[str]:
    config = directory.config
    for name, value in family.fixed.items():
        if config.get(name, value) != value:
            yield f"unsupported: {name} is {config[name]}"
    for part in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{part}") != config.get(f"decoder_{part}"):
            yield f"unsupported: encoder_{part} and decoder_{part} differ"
    if config.get("activation_function") not in _ACTIVATIONS:
        yield f"unsupported: activation_function is {config.get('activation_function')!r}"
    yield from (f"unsupported: {name}" for name in family.unsupported if directory.generation_setting(name))
    for words in _bad_words(directory):
        if not isinstance(words, list) or len(words) != 1 or type(words[0]) is not int:
            yield f"unsupported: bad_words_ids has {words}"


def _bad_words(directory: Directory) -> list[list[int]]:
    return directory.generation_setting("bad_words_ids") or []
