"""Damages of what files hold, listed with the right digests: each returns what the reasons must name.

Of the manifest, those that show when it is parsed, or only with other files: test_repository.py has the others.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import onnx
from damages.damaged_bundle import Damage, Damaged

from xuanzang.bundle.v1 import graph_pb2

_ODD_SAMPLES: tuple[dict[str, Any], ...] = (
    {"source": ""},
    {"source": "\ud800"},
    {"source": "a" * 1_000_000},
    {"source": 5},
    {"source": None},
    {"source_ids": [1 << 20]},
    {"source_ids": [-1]},
    {"source_ids": [10**4000]},
    {"source_ids": "12"},
    {"source_ids": [1.0]},
    {"source_ids": [4] * 100_000},
    {"target_ids": [1 << 20]},
    {"target_ids": [-1]},
    {"target_ids": [4] * 100_000},
    {"target_ids": None},
    {"beam_size": 0},
    {"beam_size": 10**9},
    {"beam_size": float("inf")},
    {"beam_size": "4"},
    {"length_penalty": float("nan")},
    {"length_penalty": float("inf")},
    {"length_penalty": "1"},
)


def no_samples(bundle: Damaged) -> str:
    contents = [b"", b"{}", b"[]", b"null", b'{"samples": []}', b'{"samples": {}}', b'{"samples": [1]}', b"[" * 100_000]
    bundle.certify("certificate.json", bundle.random.choice(contents))
    return "certificate.json"


def odd_sample(bundle: Damaged) -> str:
    certificate = json.loads(bundle.read("certificate.json"))
    samples = certificate["samples"]
    own = {"target_ids": [*samples[0]["target_ids"], 4]}
    samples[0] |= bundle.random.choice([*_ODD_SAMPLES, own])
    if bundle.random.random() < 0.1:
        certificate["samples"] = samples * 1000
    bundle.certify("certificate.json", json.dumps(certificate).encode())
    return "certificate"


def odd_table(bundle: Damaged) -> str:
    """Give the ids of a side by a table that does not fit."""
    field = bundle.random.choice(["source_vocabulary", "target_vocabulary"])
    size = bundle.manifest["dimensions"][field.replace("vocabulary", "vocab_size")]
    tables: list[object] = [
        [],
        {},
        None,
        [0] * size,
        ["a"] * size,
        ["\ud800"] * size,
        [str(n) for n in range(size - 1)],
    ]
    content = json.dumps(bundle.random.choice(tables)).encode()
    bundle.manifest[field] = "table.json"
    bundle.manifest["special_ids"] |= {"source_unk_id": 5, "unk_id": 5}
    bundle.manifest["files"].append({"name": "table.json"})
    bundle.certify("table.json", bundle.random.choice([content, b"[" * 100_000, content[:-1]]))
    return "table.json"


def odd_weights(bundle: Damaged) -> str:
    content = bytearray(bundle.read("weights.bin"))
    number = bundle.random.choice([float("nan"), float("inf"), -float("inf")])
    position = 4 * bundle.random.randrange(len(content) // 4)
    while not any(content[position : position + 4]):
        # Zeros may be the space between two weights.
        position = 4 * bundle.random.randrange(len(content) // 4)
    struct.pack_into("<f", content, position, number)
    bundle.certify("weights.bin", bytes(content))
    return "weights.bin: .* not finite"


def other_weights(bundle: Damaged) -> str:
    content = bundle.read("weights.bin")
    half = len(content) // 2
    contents = [
        bytes(len(content)),
        content[half:] + content[:half],
        bundle.random.randbytes(len(content)),
        b"\x00\x00\x80\x3f" * (len(content) // 4),
        content[:half],
        b"",
        content[: bundle.random.randrange(half)],
    ]
    bundle.certify("weights.bin", bundle.random.choice(contents))
    return "weights.bin|certificate"


def odd_tokenizer(bundle: Damaged) -> str:
    name: str = bundle.manifest[bundle.random.choice(["source_tokenizer", "target_tokenizer"])]
    content = bundle.read(name)
    contents = [
        b"",
        b"\x00",
        bundle.random.randbytes(10_000),
        content[: bundle.random.randrange(len(content) // 2)],
        content[: len(content) // 2] * 2,
        bundle.read("encoder.onnx"),
        b"\x0a\xff\xff\xff\xff\x0f" + content,
    ]
    bundle.certify(name, bundle.random.choice(contents))
    return name


def odd_graph(bundle: Damaged) -> str:
    name = bundle.random.choice(["encoder.onnx", "decoder.onnx"])
    content = bundle.read(name)
    other = bundle.read("decoder.onnx" if name == "encoder.onnx" else "encoder.onnx")
    contents = [
        b"",
        b"\x00",
        bundle.random.randbytes(10_000),
        content[: bundle.random.randrange(len(content) // 2)],
        other,
        content.replace(b"MatMul", b"MatMux"),
        content.replace(b"\x03Add", b"\x03Foo"),
        graph_pb2.OnnxModel().SerializeToString(),
        content + bytes(1 << 25),
    ]
    bundle.certify(name, bundle.random.choice(contents))
    return name


def nonsense_graph(bundle: Damaged) -> str:
    """Exchange operators, so that the graph is valid and computes something else, or tensors of other shapes."""
    name = bundle.random.choice(["encoder.onnx", "decoder.onnx"])
    model = onnx.ModelProto.FromString(bundle.read(name))
    old, new = bundle.random.choice([("Add", "Sub"), ("MatMul", "Add"), ("Softmax", "LogSoftmax"), ("Relu", "Neg")])
    # Not in the definitions of the decoder's operators, which kernels take the place of.
    nodes = [node for node in model.graph.node if node.op_type == old]
    for node in nodes or model.graph.node:
        node.op_type = new if nodes else "Identity"
    bundle.certify(name, model.SerializeToString())
    return f"{name}|certificate"


def cut_manifest(bundle: Damaged) -> str:
    content = bundle.read("manifest.json")
    bundle.write("manifest.json", content[: bundle.random.randrange(1, len(content) - 1)])
    return "manifest.json is not a manifest"


def odd_manifest(bundle: Damaged) -> str:
    contents = [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"format": 1e999}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b'{"format": 2, "format": 2}',
        b'{"files": ' + b"[" * 50_000,
        b'{"a":' * 50_000,
        b'{"dimensions": []}',
        b'{"dimensions": {"d_model": 2147483648}}',
        b'{"special_ids": {"eos_id": 1.5}}',
        b'{"files": [{"size_bytes": "99999999999999999999"}]}',
        b'{"provenance": {"create_time": "yesterday"}}',
        b'{"model": "\\ud800"}',
        b" " * (1 << 21),
    ]
    bundle.write("manifest.json", bundle.random.choice(contents))
    return r"manifest\.json|format is 0"


def wrong_vocabulary_size(bundle: Damaged) -> str:
    name = bundle.random.choice(["source_vocab_size", "target_vocab_size"])
    bundle.manifest["dimensions"][name] += bundle.random.choice([-1, 1, 1000])
    bundle.write_manifest()
    return "pieces; the dimensions say"


def short_limits(bundle: Damaged) -> str:
    bundle.manifest["dimensions"][bundle.random.choice(["max_source_length", "max_target_length"])] = 1
    bundle.write_manifest()
    return "certificate"


def other_end(bundle: Damaged) -> str:
    bundle.manifest["special_ids"]["source_eos_id"] = bundle.random.randrange(20, 100)
    bundle.write_manifest()
    return "source ids of .* are not those of the certificate"


def other_reference(bundle: Damaged) -> str:
    field = bundle.random.choice(["weights", "source_tokenizer", "target_tokenizer"])
    bundle.manifest[field] = bundle.random.choice(["", "nothing.bin", "MODEL_CARD.md", "certificate.json"])
    bundle.write_manifest()
    return f"{field}|{bundle.manifest[field]}"


CONTENT_DAMAGES: tuple[Damage, ...] = (
    *(cut_manifest, odd_manifest, wrong_vocabulary_size, short_limits, other_end, other_reference, no_samples),
    *(odd_sample, odd_table, odd_weights, other_weights, odd_tokenizer, odd_graph, nonsense_graph),
)
