"""The folder of a bundle, written whole or not at all: its graphs, and their weights in one file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf import json_format

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.command.folders import replacing
from xuanzang.export.weight_store import ALIGNMENT, MIN_BYTES, WeightStore, is_external, refer, span_of

if TYPE_CHECKING:
    from xuanzang.export.graphs.build import GraphSet

WEIGHTS_FILE = "weights.bin"
ENCODER_FILE = "encoder.onnx"
DECODER_FILE = "decoder.onnx"
SHORTLIST_DECODER_FILE = "decoder.shortlist.onnx"
SUGGESTIONS_FILE = "suggestions.onnx"
MANIFEST_FILE = "manifest.json"


def write_graphs(models: Mapping[str, onnx.ModelProto], folder: Path, store: WeightStore | None = None) -> None:
    """Write the files of graphs, the same bytes for the same graphs.

    Writes the graphs without their weights, and WEIGHTS_FILE, which holds equal weights once.
    """
    offsets = _write_weights(folder / WEIGHTS_FILE, _each_once(models.values(), store), store)
    for name, model in models.items():
        (folder / name).write_bytes(_without_weights(model, offsets, store))


def _write_weights(
    path: Path, weights: Mapping[bytes, onnx.TensorProto], store: WeightStore | None
) -> dict[bytes, int]:
    """Write weights one after the other and return where each begins, by digest."""
    offsets = {}
    with path.open("wb") as file:
        for digest, tensor in weights.items():
            file.write(bytes(-file.tell() % ALIGNMENT))
            offsets[digest] = file.tell()
            for block in _bytes_of(tensor, store):
                file.write(block)
    return offsets


def _each_once(models: Iterable[onnx.ModelProto], store: WeightStore | None) -> dict[bytes, onnx.TensorProto]:
    """Return different weights by digest, ordered by name: the order of nodes and graphs has no influence."""
    named = [(tensor.name, _digest(tensor, store), tensor) for model in models for tensor in _weights(model)]
    return {digest: tensor for _, digest, tensor in sorted(named, key=lambda entry: entry[:2], reverse=True)}


def _weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for tensor in model.graph.initializer if is_external(tensor) or len(tensor.raw_data) >= MIN_BYTES]


def _digest(tensor: onnx.TensorProto, store: WeightStore | None) -> bytes:
    return store.digest(tensor) if store and is_external(tensor) else hashlib.sha256(tensor.raw_data).digest()


def _bytes_of(tensor: onnx.TensorProto, store: WeightStore | None) -> Iterator[bytes]:
    if store and is_external(tensor):
        yield from store.read(tensor)
    else:
        yield tensor.raw_data


def _without_weights(model: onnx.ModelProto, offsets: Mapping[bytes, int], store: WeightStore | None) -> bytes:
    small = onnx.ModelProto()
    small.CopyFrom(model)
    for tensor in _weights(small):
        length = span_of(tensor)[1] if is_external(tensor) else len(tensor.raw_data)
        refer(tensor, WEIGHTS_FILE, offsets[_digest(tensor, store)], length)
    return small.SerializeToString(deterministic=True)


def write_graph_files(graphs: GraphSet, folder: Path) -> None:
    """Write the files of graphs and their weights file into a folder."""
    models = {ENCODER_FILE: graphs.encoder, DECODER_FILE: graphs.decoder}
    if graphs.shortlist:
        models |= {SHORTLIST_DECODER_FILE: graphs.shortlist.decoder, SUGGESTIONS_FILE: graphs.shortlist.suggestions}
    write_graphs(models, folder, graphs.weights)


def next_version(model_folder: Path) -> int:
    """Return one more than the highest version in a model's folder."""
    versions = [int(path.name) for path in model_folder.glob("[0-9]*") if path.name.isdecimal()]
    return max(versions, default=0) + 1


def write_bundle(
    folder: Path,
    files: Mapping[str, bytes],
    manifest: manifest_pb2.Manifest,
    write_more: Callable[[Path], object] = lambda _: None,
) -> int:
    """Write files and manifest; readers see all of it or nothing.

    Args:
        folder: <repository>/<model>/<version>; replaced if it exists.
        manifest: Manifest without its list of files, which is added here.
        write_more: Function that writes other files into a folder, such as large ones.

    Returns:
        Bytes of all files.
    """
    complete = manifest_pb2.Manifest()
    complete.CopyFrom(manifest)
    with replacing(folder, marker=MANIFEST_FILE) as scratch:
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        write_more(scratch)
        for path in sorted(scratch.iterdir()):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            complete.files.add(name=path.name, sha256=digest, size_bytes=path.stat().st_size)
        # Sorted, because the maps of protobuf have another order in each process.
        text = json_format.MessageToJson(complete, preserving_proto_field_name=True, sort_keys=True, ensure_ascii=False)
        (scratch / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
    return sum(file.size_bytes for file in complete.files)
