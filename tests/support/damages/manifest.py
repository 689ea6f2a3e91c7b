"""Damages of the manifest: each returns a regular expression of what the reasons must name."""

from __future__ import annotations

from typing import Any

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
    return "dimensions.num_heads"


def wrong_layers(bundle: Damaged) -> str:
    bundle.manifest["dimensions"]["num_decoder_layers"] += bundle.random.choice([1, 2, 100])
    bundle.write_manifest()
    return "inputs lacks 'past_cross_key_values"


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
    fields: dict[str, list[Any]] = {
        "beam_size": [0, 17, 2**31 - 1, -1],
        "length_penalty": ["NaN", "Infinity", -1, 1e30],
        "max_length_factor": ["NaN", "Infinity", -1, 1e30],
        "max_length_offset": [-1, 2**31 - 1],
        "loop_retry_ngram_size": [-1, 2**31 - 1],
    }
    name, values = bundle.random.choice(list(fields.items()))
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
    names = [
        "../manifest.json",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "c:d",
        "a\x00b",
        "a\x1bb",
        "manifest.json",
    ]
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


MANIFEST_DAMAGES: tuple[Damage, ...] = (
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
    odd_interface,
    odd_pages,
    other_reference,
)
