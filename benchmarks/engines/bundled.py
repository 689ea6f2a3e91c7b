"""Conversion of a bundle back to a checkpoint, so that a shipped model can be measured without its own checkpoint.

8-bit weights become multiples of their scales. Quantising those by column, as both engines do, gives the same integers.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from xuanzang.model.checkpoint import save_checkpoint
from xuanzang.model.data.metadata import (
    METADATA_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TOKENIZER_FILE,
    UNKNOWN_PAIRS,
    PreparedMetadata,
)
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.transformer import Transformer

Constants = Mapping[str, npt.NDArray[Any]]


def unpack_bundle(bundle: Path, folder: Path) -> None:
    """Write a checkpoint with the weights of a bundle.

    Args:
        bundle: Folder of a bundle with one vocabulary for source and target.
        folder: Folder of the checkpoint to write.

    Raises:
        KeyError: The graphs are not those of our exporter.
        OSError: A file is missing.
    """
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    sizes = manifest["dimensions"]
    config = TransformerConfig(
        max_positions=sizes["max_source_length"],
        **{name: sizes[name] for name in sizes if name not in ("max_source_length", "max_target_length")},
    )
    constants = {
        constant.name: numpy_helper.to_array(constant)
        for graph in ("encoder", "decoder")
        for constant in onnx.load(bundle / f"{graph}.onnx").graph.initializer
    }
    tokenizers = folder.with_name(folder.name + "-tokenizers")
    write_tokenizers(tokenizers, bundle / manifest["source_tokenizer"], config)
    weights = dict(_weights(Transformer(config), constants))
    save_checkpoint(folder, weights, config, tokenizers, {"bundle": f"{manifest['model']}/{manifest['version']}"})


def write_tokenizers(folder: Path, tokenizer: Path, config: TransformerConfig) -> None:
    """Write the files that a checkpoint takes from `prepare`: metadata and the tokenisers, equal for both sides.

    Args:
        folder: Folder to create.
        tokenizer: SentencePiece model file.
        config: Configuration of the model.
    """
    folder.mkdir(parents=True)
    for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
        shutil.copyfile(tokenizer, folder / name)
    metadata = PreparedMetadata(
        source_language="zh",
        target_language="en",
        source_normalization="nfkc",
        share_vocabulary=True,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        **UNKNOWN_PAIRS,
    )
    (folder / METADATA_FILE).write_text(metadata.model_dump_json(), encoding="utf-8")


def _weights(model: Transformer, constants: Constants) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters of a model with one embedding for source, target and output."""
    embedding = constants["embedding"].astype(np.float32) * constants.get("embedding.scale", np.float32(1))
    yield "source_embedding.weight", torch.from_numpy(embedding / np.float32(math.sqrt(model.config.d_model)))
    rows: npt.NDArray[Any] = np.empty(0)
    bias: npt.NDArray[Any] = rows
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            for part in ("weight", "bias"):
                yield f"{name}.{part}", _tensor(constants[f"{name}.{part}"])
        if isinstance(module, nn.Linear) and name != "output_projection":
            # Layers with the same input are one product in the graph, named after the first of them.
            if f"{name}.weight" in constants:
                scale = constants.get(f"{name}.weight_scale", np.float32(1))
                rows = (constants[f"{name}.weight"].astype(np.float32) * scale).T
                bias = constants[f"{name}.bias"]
            size = module.out_features
            yield f"{name}.weight", _tensor(rows[:size])
            yield f"{name}.bias", _tensor(bias[:size])
            rows, bias = rows[size:], bias[size:]


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    return torch.tensor(array, dtype=torch.float32)
