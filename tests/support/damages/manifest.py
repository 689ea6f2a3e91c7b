"""Damages of the manifest that show when it is parsed, or only with the other files.

Each returns a regular expression of what the reasons must name. test_repository.py has the faults of a manifest alone.
"""

from __future__ import annotations

from damages.damaged_bundle import Damage, Damaged


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


MANIFEST_DAMAGES: tuple[Damage, ...] = (
    cut_manifest,
    odd_manifest,
    wrong_vocabulary_size,
    short_limits,
    other_end,
    other_reference,
)
