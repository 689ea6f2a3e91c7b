"""Damaged bundles, made from a sound one by a random generator: each damage with the words that its refusal must have."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from xuanzang.bundle.v1 import graph_pb2

Manifest = dict[str, Any]


class Damaged:
    """A copy of a bundle that is about to be damaged. Files that are not touched are links to those of the original."""

    def __init__(self, original: Path, directory: Path, random: Random) -> None:
        """Copy a bundle.

        Args:
            original: Folder of a sound bundle.
            directory: Folder of the copy, to be made.
            random: Source of all choices.
        """
        self.directory = directory
        self.random = random
        directory.mkdir(parents=True)
        for path in original.iterdir():
            (directory / path.name).hardlink_to(path)
        self.manifest: Manifest = json.loads((original / "manifest.json").read_text(encoding="utf-8"))
        self.manifest["version"] = int(directory.name)
        self.write_manifest()

    def write(self, name: str, content: bytes) -> None:
        """Replace a file; the original keeps its own."""
        (self.directory / name).unlink(missing_ok=True)
        (self.directory / name).write_bytes(content)

    def read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def write_manifest(self) -> None:
        self.write("manifest.json", json.dumps(self.manifest).encode())

    def certify(self, name: str, content: bytes) -> None:
        """Replace a file and list it with its digest, as if it had been exported so."""
        self.write(name, content)
        for entry in self.manifest["files"]:
            if entry["name"] == name:
                entry |= {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": str(len(content))}
        self.write_manifest()

    @property
    def listed(self) -> list[str]:
        return [entry["name"] for entry in self.manifest["files"]]

    def any_file(self) -> str:
        return self.random.choice(self.listed)


Damage = Callable[[Damaged], str]
"""Damages a bundle and returns a regular expression of what the reasons must name."""


def flipped_bytes(bundle: Damaged) -> str:
    name = bundle.any_file()
    content = bytearray(bundle.read(name))
    for position in bundle.random.sample(range(len(content)), bundle.random.randint(1, 5)):
        content[position] ^= 1 << bundle.random.randrange(8)
    bundle.write(name, bytes(content))
    return name


def cut_file(bundle: Damaged) -> str:
    name = bundle.any_file()
    content = bundle.read(name)
    bundle.write(name, content[: bundle.random.randrange(len(content))])
    return name


def missing_file(bundle: Damaged) -> str:
    name = bundle.random.choice([*bundle.listed, "manifest.json"])
    (bundle.directory / name).unlink()
    return f"{name} is missing"


def unlisted_file(bundle: Damaged) -> str:
    name = bundle.random.choice(["extra.bin", ".hidden", "a\nb", "\x1b[31mred", "\u202etxt.exe", "x" * 200])
    (bundle.directory / name).touch()
    return "is not listed"


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


def absurd_dimension(bundle: Damaged) -> str:
    name = bundle.random.choice(list(bundle.manifest["dimensions"]))
    bundle.manifest["dimensions"][name] = bundle.random.choice([0, -1, -(2**31), 2**31 - 1, 1_000_000_000, 2_000_000])
    bundle.write_manifest()
    return f"dimensions.{name}"


def wrong_heads(bundle: Damaged) -> str:
    dimensions = bundle.manifest["dimensions"]
    width, heads = dimensions["d_model"], dimensions["num_heads"]
    fitting = [number for number in range(1, width + 1) if width % number == 0 and number != heads]
    dimensions["num_heads"] = bundle.random.choice(fitting)
    bundle.write_manifest()
    return "certificate|num_heads|graph"


def wrong_layers(bundle: Damaged) -> str:
    bundle.manifest["dimensions"]["num_decoder_layers"] += bundle.random.choice([1, 2, 100])
    bundle.write_manifest()
    return "inputs lacks 'past_key_values"


def wrong_vocabulary_size(bundle: Damaged) -> str:
    name = bundle.random.choice(["source_vocab_size", "target_vocab_size"])
    bundle.manifest["dimensions"][name] += bundle.random.choice([-1, 1, 1000])
    bundle.write_manifest()
    return "pieces; the dimensions say"


def short_limits(bundle: Damaged) -> str:
    bundle.manifest["dimensions"][bundle.random.choice(["max_source_length", "max_target_length"])] = 1
    bundle.write_manifest()
    return "certificate"


def wrong_special_id(bundle: Damaged) -> str:
    name = bundle.random.choice(["source_pad_id", "source_eos_id", "decoder_start_id", "eos_id"])
    bundle.manifest["special_ids"][name] = bundle.random.choice([-1, 1 << 20, 2**31 - 1, -(2**31)])
    bundle.write_manifest()
    return f"special_ids.{name}"


def other_end(bundle: Damaged) -> str:
    bundle.manifest["special_ids"]["source_eos_id"] = bundle.random.randrange(20, 100)
    bundle.write_manifest()
    return "source ids of .* are not those of the certificate"


def wrong_default(bundle: Damaged) -> str:
    name, values = bundle.random.choice(
        [
            ("beam_size", [0, 17, 2**31 - 1, -1]),
            ("length_penalty", ["NaN", "Infinity", -1, 1e30]),
            ("max_length_factor", ["NaN", "Infinity", -1, 1e30]),
            ("max_length_offset", [-1, 2**31 - 1]),
            ("loop_retry_ngram_size", [-1, 2**31 - 1]),
        ]
    )
    bundle.manifest["generation_defaults"][name] = bundle.random.choice(values)
    bundle.write_manifest()
    return f"generation_defaults.{name}"


def unknown_enum(bundle: Damaged) -> str:
    bundle.manifest["precision"] = bundle.random.choice([0, 77, -1, 2**31 - 1, "PRECISION_INT3", None, []])
    bundle.write_manifest()
    return "precision"


def other_identity(bundle: Damaged) -> str:
    name, value = bundle.random.choice(
        [
            ("model", "other"),
            ("model", "T\x00iny"),
            ("model", "x" * 100_000),
            ("version", 0),
            ("version", -5),
            ("version", 2**31 - 1),
            ("format", 1),
            ("format", 99),
        ]
    )
    bundle.manifest[name] = value
    bundle.write_manifest()
    return f"{name} is"


def odd_languages(bundle: Damaged) -> str:
    name = bundle.random.choice(["source_language_codes", "target_language_codes"])
    bundle.manifest[name] = bundle.random.choice([[], [""], ["e n"], ["en", "EN"], ["\n"], ["en-" + "x" * 1000]])
    bundle.write_manifest()
    return name


def odd_file_name(bundle: Damaged) -> str:
    names = ["../manifest.json", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "c:d", "a\x00b", "a\x1bb", "manifest.json"]
    entry = {"name": bundle.random.choice(names), "sha256": "0" * 64, "size_bytes": "1"}
    bundle.manifest["files"].append(entry)
    bundle.write_manifest()
    return "files"


def odd_file_entry(bundle: Damaged) -> str:
    files = bundle.manifest["files"]
    entry = bundle.random.choice(files)
    change = bundle.random.randrange(5)
    if change == 0:
        files.append(dict(entry))
    elif change == 1:
        entry["sha256"] = bundle.random.choice(["", "0" * 63, "G" * 64, "A" * 64])
    elif change == 2:
        entry["size_bytes"] = bundle.random.choice(["-1", str(2**63 - 1), str(1 << 40)])
    elif change == 3:
        files.remove(entry)
    else:
        files += [{"name": f"{number}", "sha256": "0" * 64} for number in range(100)]
    bundle.write_manifest()
    return f"files|{entry['name']}"


def huge_file(bundle: Damaged) -> str:
    """List a file of terabytes, which takes no space and is there."""
    name, size = bundle.random.choice([("weights.bin", 1 << 40), ("MODEL_CARD.md", 1 << 30), ("encoder.onnx", 1 << 34)])
    bundle.write(name, b"")
    os.truncate(bundle.directory / name, size)
    [entry] = [entry for entry in bundle.manifest["files"] if entry["name"] == name]
    entry["size_bytes"] = str(size)
    bundle.write_manifest()
    return f"size_bytes of '{name}'"


def huge_manifest(bundle: Damaged) -> str:
    name = bundle.random.choice(["manifest.json", "certificate.json"])
    content = bundle.read(name) + b" " * (1 << 21)
    bundle.certify(name, content) if name in bundle.listed else bundle.write(name, content)
    return f"{name} has more than"


def special_file(bundle: Damaged) -> str:
    """Put something in the place of a file that is not one, or leads to another."""
    name = bundle.random.choice([*bundle.listed, "manifest.json"])
    path = bundle.directory / name
    path.unlink()
    kinds: list[Callable[[], object]] = [
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: _socket(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/stdin"),
        lambda: path.symlink_to("/etc/passwd"),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("nowhere"),
        lambda: path.symlink_to("../../../../../../../../../../proc/self/mem"),
    ]
    bundle.random.choice(kinds)()
    return name


def _socket(path: Path) -> None:
    # Paths of sockets are short.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def missing_folder(bundle: Damaged) -> str:
    shutil.rmtree(bundle.directory)
    bundle.directory.symlink_to(bundle.random.choice(["nowhere", bundle.directory.name]))
    return "manifest.json"


def no_samples(bundle: Damaged) -> str:
    contents = [b"", b"{}", b"[]", b"null", b'{"samples": []}', b'{"samples": {}}', b'{"samples": [1]}', b"[" * 100_000]
    bundle.certify("certificate.json", bundle.random.choice(contents))
    return "certificate.json"


def odd_sample(bundle: Damaged) -> str:
    certificate = json.loads(bundle.read("certificate.json"))
    samples = certificate["samples"]
    changes: list[dict[str, Any]] = [
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
        {"target_ids": samples[0]["target_ids"][:-1]},
        {"beam_size": 0},
        {"beam_size": 10**9},
        {"beam_size": float("inf")},
        {"beam_size": "4"},
        {"length_penalty": float("nan")},
        {"length_penalty": float("inf")},
        {"length_penalty": "1"},
    ]
    samples[0] |= bundle.random.choice(changes)
    if bundle.random.random() < 0.1:
        certificate["samples"] = samples * 1000
    bundle.certify("certificate.json", json.dumps(certificate).encode())
    return "certificate"


def odd_interface(bundle: Damaged) -> str:
    graph = bundle.random.choice(["encoder", "decoder"])
    tensors = bundle.manifest[graph][bundle.random.choice(["inputs", "outputs"])]
    tensor = bundle.random.choice(tensors)
    change = bundle.random.randrange(4)
    if change == 0:
        tensors.remove(tensor)
    elif change == 1:
        tensor["name"] = bundle.random.choice(["", "x", "past_key_values.999.key", tensors[0]["name"] + "\n"])
    elif change == 2:
        tensor["dtype"] = bundle.random.choice(["", "int32", "string", "float64"])
    else:
        tensor["shape"] = bundle.random.choice([[], ["a"] * 5, ["9" * 5000] * 7])
    bundle.write_manifest()
    return graph


def odd_pages(bundle: Damaged) -> str:
    slots = bundle.random.choice(["0", "-32", "31", "64k", "1" + "0" * 5000, str(32 << 30), "²"])
    for graph in ("encoder", "decoder"):
        for tensor in [*bundle.manifest[graph]["inputs"], *bundle.manifest[graph]["outputs"]]:
            if "key_values." in tensor["name"]:
                tensor["shape"][2] = slots
    bundle.write_manifest()
    return "slots"


def other_reference(bundle: Damaged) -> str:
    field = bundle.random.choice(["weights", "source_tokenizer", "target_tokenizer"])
    bundle.manifest[field] = bundle.random.choice(["", "nothing.bin", "MODEL_CARD.md", "certificate.json"])
    bundle.write_manifest()
    return f"{field}|{bundle.manifest[field]}"


def odd_table(bundle: Damaged) -> str:
    """Give the ids of a side by a table that does not fit."""
    field = bundle.random.choice(["source_vocabulary", "target_vocabulary"])
    size = bundle.manifest["dimensions"][field.replace("vocabulary", "vocab_size")]
    tables: list[object] = [[], {}, None, [0] * size, ["a"] * size, ["\ud800"] * size, [str(n) for n in range(size - 1)]]
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
    return "weights.bin .* not finite"


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
    name = bundle.manifest[bundle.random.choice(["source_tokenizer", "target_tokenizer"])]
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
        content.replace(b"\x04Mul", b"\x04Foo").replace(b"\x03Mul", b"\x03Foo"),
        graph_pb2.OnnxModel().SerializeToString(),
        content + bytes(1 << 25),
    ]
    bundle.certify(name, bundle.random.choice(contents))
    return name


def nonsense_graph(bundle: Damaged) -> str:
    """Exchange operators, so that the graph is valid and computes something else, or tensors of other shapes."""
    name = bundle.random.choice(["encoder.onnx", "decoder.onnx"])
    exchanges = [(b"\x03Add", b"\x03Sub"), (b"\x03Add", b"\x03Mul"), (b"\x03Mul", b"\x03Add"), (b"\x03Mul", b"\x03Div")]
    content = bundle.read(name)
    old, new = bundle.random.choice([pair for pair in exchanges if pair[0] in content])
    bundle.certify(name, content.replace(old, new))
    return f"{name}|certificate"


DAMAGES: tuple[Damage, ...] = (
    flipped_bytes,
    cut_file,
    missing_file,
    unlisted_file,
    cut_manifest,
    odd_manifest,
    absurd_dimension,
    wrong_heads,
    wrong_layers,
    wrong_vocabulary_size,
    short_limits,
    wrong_special_id,
    other_end,
    wrong_default,
    unknown_enum,
    other_identity,
    odd_languages,
    odd_file_name,
    odd_file_entry,
    huge_file,
    huge_manifest,
    special_file,
    missing_folder,
    no_samples,
    odd_sample,
    odd_interface,
    odd_pages,
    other_reference,
    odd_table,
    odd_weights,
    other_weights,
    odd_tokenizer,
    odd_graph,
    nonsense_graph,
)


def damage(original: Path, directory: Path, number: int) -> tuple[str, str]:
    """Make one damaged bundle.

    Args:
        original: Folder of a sound bundle.
        directory: Folder of the damaged one, to be made; its name is its version.
        number: Number of the damage; the same number gives the same one.

    Returns:
        Name of the damage, and a regular expression of what the reasons of its refusal must name.
    """
    kind = DAMAGES[number % len(DAMAGES)]
    return kind.__name__, kind(Damaged(original, directory, Random(number)))  # noqa: S311 - repeatable, not secret
