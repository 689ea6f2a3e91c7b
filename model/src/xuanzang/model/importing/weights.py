"""Networks and weights of other projects' models, as those of this one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from xuanzang.model.importing.directory import Directory
from xuanzang.model.importing.family import Family
from xuanzang.model.importing.pickled import UnsafeError, read_pickled
from xuanzang.model.network.arrays import parameter_shapes
from xuanzang.model.network.config import Activation, ConfigError, TransformerConfig
from xuanzang.model.network.positions import FloatArray, fixed_positions
from xuanzang.model.stored_checkpoint import MappedArrays

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
        faults: List that receives faults.

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


_SAFETENSORS = ".safetensors"
_NEVER = -1.0e9
"""Bias on the logit of a piece that is never chosen and whose probability goes to the others."""

# From our names to theirs, one after the other.
_RENAMED = (
    ("source_embedding_norm.", "model.encoder.layernorm_embedding."),
    ("target_embedding_norm.", "model.decoder.layernorm_embedding."),
    ("source_positions.table", "model.encoder.embed_positions.weight"),
    ("target_positions.table", "model.decoder.embed_positions.weight"),
    ("encoder_norm.", "model.encoder.layer_norm."),
    ("decoder_norm.", "model.decoder.layer_norm."),
    ("encoder_layers.", "model.encoder.layers."),
    ("decoder_layers.", "model.decoder.layers."),
    ("cross_attention_residual.norm", "encoder_attn_layer_norm"),
    ("self_attention_residual.norm", "self_attn_layer_norm"),
    ("feed_forward_residual.norm", "final_layer_norm"),
    ("feed_forward.inner", "fc1"),
    ("feed_forward.outer", "fc2"),
    ("cross_attention.", "encoder_attn."),
    ("self_attention.", "self_attn."),
    ("query_projection", "q_proj"),
    ("key_projection", "k_proj"),
    ("value_projection", "v_proj"),
    ("attn.output_projection", "attn.out_proj"),
)
_SHARED, _SOURCE, _TARGET, _OUTPUT = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_BIAS = "final_logits_bias"
# The second spelling is that of M2M-100's files.
_POSITIONS = tuple(
    f"model.{side}.embed_positions.{name}" for side in ("encoder", "decoder") for name in ("weight", "weights")
)
_POSITION_OFFSET = 2
"""Rows of a table of positions, learned or fairseq's, before that of the first token."""


def read_weights(paths: Sequence[Path], faults: list[str]) -> dict[str, FloatArray] | None:
    """Map all tensors of files under their own names, without running anything that they may hold.

    Args:
        paths: model.safetensors or pytorch_model.bin, or their parts.
        faults: List that receives faults.

    Returns:
        Arrays by name, None if they cannot be read.
    """
    arrays: dict[str, FloatArray] = {}
    for path in paths:
        try:
            arrays |= MappedArrays(path).arrays if path.suffix == _SAFETENSORS else read_pickled(path)
        except UnsafeError as error:
            faults.append(f"{path.name} holds more than tensors of floats, which is never run: {error}")
            return None
        except (SafetensorError, OSError, ValueError) as error:
            faults.append(f"{path.name} is damaged: {str(error).splitlines()[0] if str(error) else error!r}")
            return None
    return arrays


def network_weights(
    tensors: Mapping[str, FloatArray],
    config: TransformerConfig,
    faults: list[str],
    *,
    shared: bool,
    tied: bool,
    renormalized: bool,
) -> tuple[TransformerConfig, dict[str, FloatArray]]:
    """Find the network's parameters among the tensors.

    Args:
        tensors: Tensors of the file, by name.
        config: Configuration; sharing, tying and the bias of the output are found from the tensors.
        faults: List that receives missing, unexpected and misshapen tensors.
        shared: Whether both embeddings are one table, which the file may have under any of its names.
        tied: Whether the output projection has to be the target embedding; the same.
        renormalized: Whether the probability of banned pieces goes to the others.

    Returns:
        The complete configuration, and the parameters by our names.
    """
    bias = _output_bias(tensors, config, renormalized=renormalized)
    tables = _tables(tensors, shared=shared and config.share_embeddings, tied=tied) | {"output_projection.bias": bias}
    source, target, output, _ = tables.values()
    config = dataclasses.replace(
        config,
        share_embeddings=config.share_embeddings and _equal(source, target),
        tie_output=_equal(output, target),
        output_bias=bias is not None,
        banned_ids=() if renormalized else config.banned_ids,
    )
    if tied and not config.tie_output:
        faults.append(f"{_OUTPUT} is not the target embedding, though config.json ties them")
    shapes = parameter_shapes(config)
    weights = dict(_parameters(tensors, tables, shapes))
    faults += [*_misfits(weights, shapes), *_unexpected(tensors, shapes), *_wrong_positions(tensors, config)]
    return config, weights


def _parameters(
    tensors: Mapping[str, FloatArray], tables: Mapping[str, FloatArray | None], names: Iterable[str]
) -> Iterator[tuple[str, FloatArray]]:
    for name in names:
        tensor = tables[name] if name in tables else _tensor(tensors, name)
        if tensor is not None:
            yield name, tensor


def _tensor(tensors: Mapping[str, FloatArray], name: str) -> FloatArray | None:
    tensor = tensors.get(_theirs(name))
    return tensor[_POSITION_OFFSET:] if tensor is not None and name.endswith("_positions.table") else tensor


def _tables(tensors: Mapping[str, FloatArray], *, shared: bool, tied: bool) -> dict[str, FloatArray | None]:
    """Return embeddings and output, by our names; a file has shared or tied tensors under one name or several."""
    either = {
        _SOURCE: (_SOURCE, _SHARED, *((_TARGET,) if shared else ()), *((_OUTPUT,) if shared and tied else ())),
        _TARGET: (_TARGET, _SHARED, *((_OUTPUT,) if tied else ()), *((_SOURCE,) if shared else ())),
        _OUTPUT: (_OUTPUT, *((_TARGET, _SHARED) if tied else ()), *((_SOURCE,) if shared and tied else ())),
    }
    found = {
        name: next((tensors[other] for other in names if other in tensors), None) for name, names in either.items()
    }
    return {
        "source_embedding.weight": found[_SOURCE],
        "target_embedding.weight": found[_TARGET],
        "output_projection.weight": found[_OUTPUT],
    }


def _misfits(weights: Mapping[str, FloatArray], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    for name, shape in shapes.items():
        if name not in weights:
            yield f"missing {_theirs(name)}"
        elif weights[name].shape != shape:
            yield f"{_theirs(name)} has shape {list(weights[name].shape)}, expected {list(shape)}"


def _theirs(name: str) -> str:
    known = {
        "source_embedding.weight": _SOURCE,
        "target_embedding.weight": _TARGET,
        "output_projection.weight": _OUTPUT,
        "output_projection.bias": _BIAS,
    }
    for ours, theirs in _RENAMED:
        name = name.replace(ours, theirs)
    return known.get(name, name)


def _equal(one: FloatArray | None, other: FloatArray | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(one, other)


def _output_bias(
    tensors: Mapping[str, FloatArray], config: TransformerConfig, *, renormalized: bool
) -> FloatArray | None:
    """Return the bias of the logits, None if it is 0."""
    bias = tensors.get(_BIAS, np.zeros(config.target_vocab_size, np.float32)).flatten()
    if renormalized and config.banned_ids and len(bias) == config.target_vocab_size:
        bias[list(config.banned_ids)] = _NEVER
    return bias if bias.any() else None


def _unexpected(tensors: Mapping[str, FloatArray], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    known = {*map(_theirs, shapes), _SHARED, _SOURCE, _TARGET, _OUTPUT, _BIAS, *_POSITIONS}
    return [f"unexpected {name}" for name in tensors if name not in known]


def _wrong_positions(tensors: Mapping[str, FloatArray], config: TransformerConfig) -> list[str]:
    """Old files hold the table of positions, which must equal the network's."""
    if config.positions == "learned":
        return []
    table = fixed_positions(config)
    first = _POSITION_OFFSET if config.positions == "sinusoidal_fairseq" else 0
    return [
        f"unsupported: {name} is not the table of sines and cosines"
        for name in _POSITIONS
        if name in tensors
        and not (tensors[name].shape == (len(table) + first, table.shape[1]) and _is_near(tensors[name][first:], table))
    ]


def _is_near(table: FloatArray, expected: FloatArray) -> bool:
    # In single precision, angles of some thousand radians are exact to some ten-thousandths.
    return np.allclose(table, expected, atol=1e-3)
