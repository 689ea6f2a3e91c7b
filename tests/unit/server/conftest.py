"""A bundle that is right in everything but its graphs, which nothing here opens."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from xuanzang.bundle.v1 import graph_pb2

SENTENCES = ("我有一只猫。", "你好，世界！", "今天天气很好。", "a cat, a dog", "hello world", "the weather is fine")
QUALITY = {"torch_float32": {"chrf": 50.0}, "onnx_float32": {"chrf": 49.5}}
PAGES = ["page", "heads", "32", "head"]


def listed(directory: Path) -> list[dict[str, Any]]:
    """Return the files of a folder as a manifest lists them."""
    contents = {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name != "manifest.json"}
    return [
        {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": str(len(content))}
        for name, content in contents.items()
    ]


def tensor(name: str, dtype: str, *shape: str) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def key_values(prefix: str, *shape: str) -> list[dict[str, Any]]:
    return [tensor(f"{prefix}.0.{part}", "float32", *shape) for part in ("key", "value")]


def reference(name: str, **changes: str) -> graph_pb2.OnnxTensor:
    """Return a constant of 128 bytes in the weights file, or what the changes make of it."""
    entries = {"location": "weights.bin", "offset": "0", "length": "128"} | changes
    external = [graph_pb2.OnnxEntry(key=key, value=value) for key, value in entries.items()]
    return graph_pb2.OnnxTensor(name=name, data_location=1, external_data=external)


def graph_with(*tensors: graph_pb2.OnnxTensor) -> bytes:
    return graph_pb2.OnnxModel(graph=graph_pb2.OnnxGraph(initializer=tensors)).SerializeToString()


def source_tensors() -> list[dict[str, Any]]:
    """Return the inputs of both graphs that say where the keys and values of sources lie."""
    lengths = tensor("source_lengths", "int64", "batch")
    return [lengths, tensor("source_page_table", "int64", "batch", "source_logical_page")]


def encoder() -> dict[str, Any]:
    """Return the encoder of a manifest."""
    source_ids = tensor("source_ids", "int64", "batch", "source")
    return {
        "file": "encoder.onnx",
        "opset": 18,
        "inputs": [source_ids, *source_tensors(), *key_values("past_cross_key_values", *PAGES)],
        "outputs": key_values("present_cross_key_values", *PAGES),
    }


def decoder() -> dict[str, Any]:
    """Return the decoder of a manifest."""
    inputs = [
        tensor("token_ids", "int64", "batch", "beam"),
        tensor("positions", "int64", "batch", "1"),
        tensor("scores", "float32", "batch", "beam"),
        tensor("slot_indices", "int64", "batch", "beam", "heads", "3"),
        tensor("page_table", "int64", "batch", "logical_page"),
        tensor("page_owners", "int64", "page", "2"),
        tensor("visible", "bool", "batch", "beam", "slot"),
        tensor("candidate_count", "int64", "1"),
        tensor("edited_ids", "int64", "batch", "beam", "edit"),
        tensor("edit_penalties", "float32", "batch", "beam", "edit"),
        tensor("edit_biases", "float32", "batch", "beam", "edit"),
        *source_tensors(),
        tensor("source_page_owners", "int64", "page", "2"),
        *key_values("cross_key_values", *PAGES),
        *key_values("past_key_values", *PAGES),
    ]
    outputs = [
        tensor("candidate_scores", "float32", "batch", "candidate"),
        tensor("candidate_ids", "int64", "batch", "candidate"),
        tensor("candidate_parents", "int64", "batch", "candidate"),
        tensor("attention", "float32", "batch", "beam", "source"),
        *key_values("present_key_values", *PAGES),
    ]
    return {"file": "decoder.onnx", "opset": 18, "inputs": inputs, "outputs": outputs}


def manifest_of(directory: Path, vocab_size: int) -> dict[str, Any]:
    """Return the manifest of a bundle whose files are there."""
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    vocabulary = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return {
        "format": 2,
        "model": directory.parent.name,
        "version": int(directory.name),
        "source_language_codes": ["zh"],
        "target_language_codes": ["en"],
        "dimensions": sizes | vocabulary | {"max_source_length": 24, "max_target_length": 32},
        "special_ids": {"source_pad_id": 0, "source_eos_id": 2, "decoder_start_id": 1, "eos_id": 2},
        "precision": "PRECISION_FLOAT32",
        "encoder": encoder(),
        "decoder": decoder(),
        "weights": "weights.bin",
        "source_tokenizer": "shared.spm",
        "target_tokenizer": "shared.spm",
        "files": listed(directory),
        "generation_defaults": {
            "beam_size": 4,
            "length_penalty": 1.0,
            "max_length_factor": 2.0,
            "max_length_offset": 8,
        },
        "source_format": {"normalization": "nfkc"},
    }


@pytest.fixture(scope="package", autouse=True)
def frozen_imports() -> Iterator[None]:
    """Spare the collector, which workers call whenever they rest, all that is imported by then."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def train_tokenizer() -> Callable[[str], bytes]:
    """Trains a tokeniser with a rule of normalisation."""

    def train(normalization: str) -> bytes:
        model = io.BytesIO()
        SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 10),
            model_writer=model,
            vocab_size=300,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name=normalization,
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=3,
            minloglevel=2,
        )
        return model.getvalue()

    return train


@pytest.fixture(scope="session")
def tokenizer(train_tokenizer: Callable[[str], bytes]) -> bytes:
    return train_tokenizer("nmt_nfkc")


@pytest.fixture(scope="session")
def repository_template(tokenizer: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template")
    directory = root / "small" / "1"
    directory.mkdir(parents=True)
    processor = SentencePieceProcessor(model_proto=tokenizer)
    samples = [
        {
            "source": source,
            "source_ids": [*processor.encode(source), 2],
            # What the decoders that stand in for graphs give: the source again.
            "target_ids": processor.encode(source),
            "beam_size": 2,
            "length_penalty": 1.0,
        }
        for source in ("我有一只猫。", "hello world")
    ]
    (directory / "shared.spm").write_bytes(tokenizer)
    (directory / "encoder.onnx").write_bytes(graph_with(reference("embedding")))
    (directory / "decoder.onnx").write_bytes(graph_with(reference("embedding"), reference("projection", offset="128")))
    (directory / "weights.bin").write_bytes(bytes(range(256)))
    (directory / "certificate.json").write_text(json.dumps({"samples": samples, "quality": QUALITY}))
    (directory / "MODEL_CARD.md").write_text("# small\n")
    (directory / "manifest.json").write_text(json.dumps(manifest_of(directory, processor.vocab_size())))
    return root


@pytest.fixture
def repository(repository_template: Path, tmp_path: Path) -> Path:
    """Holds model "small", version 1, zh to en; free to be changed."""
    return Path(shutil.copytree(repository_template, tmp_path / "models"))


@pytest.fixture
def directory(repository: Path) -> Path:
    """Folder of the bundle in the repository."""
    return repository / "small" / "1"


Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


@pytest.fixture
def edit_manifest() -> Edit:
    """Changes the manifest of a bundle's folder."""

    def edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
        path = directory / "manifest.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))

    return edit


@pytest.fixture
def relist(edit_manifest: Edit) -> Callable[[Path], None]:
    """Lists the files of a bundle's folder in its manifest as they are now."""
    return lambda directory: edit_manifest(directory, lambda manifest: manifest.update(files=listed(directory)))
