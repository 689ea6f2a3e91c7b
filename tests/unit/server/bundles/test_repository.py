from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from xuanzang.bundle.v1.manifest_pb2 import Dimensions
from xuanzang.server.bundles.errors import MAX_REASON_CHARACTERS, MAX_REASONS, BundleError
from xuanzang.server.bundles.files import changed_files, read_limited
from xuanzang.server.bundles.repository import find_bundles, load_bundle

Manifest = dict[str, Any]
Edit = Callable[[Path, Callable[[Manifest], object]], None]


def reasons(directory: Path) -> str:
    with pytest.raises(BundleError) as refusal:
        load_bundle(directory)
    assert str(directory) in str(refusal.value)
    return "\n".join(refusal.value.reasons)


def test_a_sound_bundle_is_loaded_with_its_samples_and_its_digest(directory: Path) -> None:
    bundle = load_bundle(directory)
    assert bundle.manifest_sha256 == hashlib.sha256((directory / "manifest.json").read_bytes()).hexdigest()
    assert bundle.precision == "float32"
    assert [sample.source for sample in bundle.samples] == ["我有一只猫。", "hello world"]
    assert all(sample.source_ids[-1] == 2 for sample in bundle.samples)


def test_bundles_are_found_by_model_and_then_by_number(tmp_path: Path) -> None:
    for path in ("b/1", "a/10", "a/9", "a/latest", "a/01", "a/0", ".hidden/1"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "README.md").touch()
    (tmp_path / "a" / "8").touch()
    assert find_bundles(tmp_path) == [tmp_path / "a/9", tmp_path / "a/10", tmp_path / "b/1"]


def test_a_repository_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="No such file"):
        find_bundles(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx", "weights.bin", "shared.spm", "certificate.json"])
def test_an_altered_byte_in_any_file_is_found(directory: Path, name: str) -> None:
    content = bytearray((directory / name).read_bytes())
    content[len(content) // 2] ^= 1
    (directory / name).write_bytes(content)
    assert f"{name} has SHA-256" in reasons(directory)


def test_missing_longer_and_unlisted_files_are_all_named_at_once(directory: Path) -> None:
    (directory / "MODEL_CARD.md").unlink()
    size = (directory / "encoder.onnx").stat().st_size
    with (directory / "encoder.onnx").open("ab") as file:
        file.write(b"more")
    (directory / "extra.bin").touch()
    found = reasons(directory)
    assert "MODEL_CARD.md is missing" in found
    assert f"encoder.onnx has {size + 4} bytes; manifest.json says {size}" in found
    assert "extra.bin is not listed" in found


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "a/b", "..", "", "a\\b", "c:d", "a\0b", "a\nb", "a\x1bb", "."]
)
def test_a_listed_name_must_stay_in_the_folder(directory: Path, edit_manifest: Edit, name: str) -> None:
    edit_manifest(directory, lambda manifest: manifest["files"].append({"name": name, "sha256": "0" * 64}))
    found = reasons(directory)
    assert "is not a plain file name" in found
    assert "is missing" not in found  # it was not looked for


def prefix(manifest: Manifest, **ids: int) -> None:
    manifest["source_format"]["language_prefix_ids"] = ids


def shaped(manifest: Manifest, axis: int, size: str) -> None:
    for tensor in manifest["decoder"]["inputs"]:
        if tensor["name"].startswith("past_key_values"):
            tensor["shape"][axis] = size


CHANGES: list[tuple[str, Callable[[Manifest], object]]] = [
    ("model is 'Small'", lambda m: m.update(model="Small")),
    ("its folder is 'small'", lambda m: m.update(model="large")),
    ("version is 2", lambda m: m.update(version=2)),
    ("source_language_codes is empty", lambda m: m.update(source_language_codes=[])),
    ("'e n' is not a BCP-47 code", lambda m: m.update(target_language_codes=["e n"])),
    ("names a language twice", lambda m: m.update(target_language_codes=["en", "EN"])),
    ("dimensions.d_model is 0", lambda m: m["dimensions"].pop("d_model")),
    ("num_heads 3 does not divide", lambda m: m["dimensions"].update(num_heads=3)),
    ("dimensions.num_heads is 2, and 'past_key_values.0.key' of the decoder has 4 heads", lambda m: shaped(m, 1, "4")),
    ("precision is 0", lambda m: m.pop("precision")),
    ("encoder.opset is 0", lambda m: m["encoder"].pop("opset")),
    ("encoder.file is 'x.onnx'", lambda m: m["encoder"].update(file="x.onnx")),
    ("weights is '', which files does not list", lambda m: m.pop("weights")),
    ("weights is 'other.bin', which files does not list", lambda m: m.update(weights="other.bin")),
    ("source_tokenizer is ''", lambda m: m.pop("source_tokenizer")),
    ("decoder.inputs lacks 'token_ids'", lambda m: m["decoder"]["inputs"].pop(0)),
    ("decoder.inputs lacks 'past_key_values.1.key'", lambda m: m["dimensions"].update(num_decoder_layers=2)),
    *(
        ("pages must have a multiple of 32 slots", partial(shaped, axis=2, size=slots))
        for slots in ("slot", "48", "0", "-32", "64k", "1" + "0" * 5000, str(32 << 30), "²")
    ),
    ("decoder.outputs has 'logits'", lambda m: m["decoder"]["outputs"].append({"name": "logits"})),
    ("encoder.outputs names a tensor twice", lambda m: m["encoder"]["outputs"].extend(m["encoder"]["outputs"][:1])),
    ("'source_ids' has type 'int32'", lambda m: m["encoder"]["inputs"][0].update(dtype="int32")),
    ("'source_ids' has 1 dimensions; it must have 2", lambda m: m["encoder"]["inputs"][0].update(shape=["batch"])),
    ("encoder.inputs", lambda m: m["encoder"]["inputs"][0].update(shape=["9" * 5000] * 7)),
    ("encoder.inputs", lambda m: m["encoder"]["inputs"][0].update(name="source_ids\n")),
    ("files names a file twice", lambda m: m["files"].append(m["files"][0])),
    ("files lists manifest.json itself", lambda m: m["files"].append({"name": "manifest.json"})),
    *(
        ("is not 64 lower-case hex digits", lambda m, digest=digest: m["files"][0].update(sha256=digest))
        for digest in ("", "0" * 63, "G" * 64, "A" * 64)
    ),
    ("files lists ", lambda m: m["files"].extend({"name": f"{n}", "sha256": "0" * 64} for n in range(100))),
    ("is negative", lambda m: m["files"][0].update(size_bytes="-1")),
    ("the certificate is 'certificate.json', which files", lambda m: m["files"].pop(1)),
    ("stopping is 9, which is not known", lambda m: m["generation_defaults"].update(stopping=9)),
    ("leave no room", lambda m: m["generation_defaults"].update(max_length_offset=0, max_length_factor=0)),
    ("normalization is 'nfd'", lambda m: m["source_format"].update(normalization="nfd")),
    ("language_prefix_ids lacks 'en', one of target_language_codes", lambda m: prefix(m, fr=5)),
    ("language_prefix_ids has 'fr', which target_language_codes does not list", lambda m: prefix(m, en=4, fr=5)),
    ("language_prefix_ids has -1 for 'en'; the source vocabulary has", lambda m: prefix(m, en=-1)),
    ("language_prefix_ids has 100000 for 'en'; the source vocabulary has", lambda m: prefix(m, en=100_000)),
    ("source_vocabulary is 'ids.json', which files", lambda m: m.update(source_vocabulary="ids.json")),
    ("target_vocabulary is 'ids.json', which files", lambda m: m.update(target_vocabulary="ids.json")),
]


@pytest.mark.parametrize(("reason", "change"), CHANGES, ids=[reason for reason, _ in CHANGES])
def test_each_fault_is_named(
    directory: Path, edit_manifest: Edit, reason: str, change: Callable[[Manifest], object]
) -> None:
    edit_manifest(directory, change)
    assert reason in reasons(directory)


SIZES = [0, -1, -(2**31), 2**31 - 1, 2_000_000]
IDS = [-1, 1 << 20, 2**31 - 1, -(2**31)]
LANGUAGES = [[], [""], ["\n"], ["en-" + "x" * 1000]]
FACTORS = ["NaN", "Infinity", -1, 1e30]
VALUES: dict[str, list[Any]] = {
    "model": ["T\0iny", "x" * 100_000],
    "version": [0, -5, 2**31 - 1],
    "precision": [0, 77, -1, 2**31 - 1, "PRECISION_INT3", None, []],
    "source_language_codes": LANGUAGES,
    "target_language_codes": LANGUAGES,
    **{f"dimensions.{field.name}": SIZES for field in Dimensions.DESCRIPTOR.fields},
    **{f"special_ids.{name}": IDS for name in ("source_pad_id", "source_eos_id", "decoder_start_id", "eos_id")},
    "generation_defaults.beam_size": [0, 17, 2**31 - 1, -1],
    "generation_defaults.length_penalty": FACTORS,
    "generation_defaults.max_length_factor": FACTORS,
    "generation_defaults.max_length_offset": [-1, 2**31 - 1],
    "generation_defaults.loop_retry_ngram_size": [-1, 2**31 - 1],
}


@pytest.mark.parametrize("place", VALUES)
def test_no_value_out_of_its_range_is_taken(directory: Path, edit_manifest: Edit, place: str) -> None:
    *messages, field = place.split(".")
    for value in VALUES[place]:

        def change(manifest: Manifest, value: Any = value) -> None:
            for message in messages:
                manifest = manifest[message]
            manifest[field] = value

        edit_manifest(directory, change)
        assert place in reasons(directory), value


def test_all_faults_are_named_at_once(directory: Path, edit_manifest: Edit) -> None:
    def change(manifest: Manifest) -> None:
        manifest["version"] = 3
        manifest["special_ids"]["eos_id"] = -5
        manifest["generation_defaults"]["beam_size"] = 0

    edit_manifest(directory, change)
    (directory / "extra.bin").touch()
    assert len(reasons(directory).splitlines()) == 4


@pytest.mark.parametrize(("format_", "remedy"), [(3, ""), (1, "; export the checkpoint again with xuanzang export")])
def test_another_format_is_refused_without_guessing_at_the_rest(
    directory: Path, edit_manifest: Edit, format_: int, remedy: str
) -> None:
    edit_manifest(directory, lambda manifest: manifest.update(format=format_, model="?"))
    assert reasons(directory) == f"format is {format_}; this server reads format 2{remedy}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"unknown": 1}',
        b'{"format": 2, "format": 2}',
        b'{"format": 1e99}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (1 << 21),
    ],
)
def test_what_is_not_a_manifest_is_refused(directory: Path, content: bytes) -> None:
    (directory / "manifest.json").write_bytes(content)
    assert "manifest" in reasons(directory) or "format is 0" in reasons(directory)


@pytest.mark.parametrize(
    "certificate",
    [
        "not json",
        "[]",
        "{}",
        '{"samples": [1]}',
        '{"samples": [{"source": ""}]}',
        '{"samples": [{"source": "a", "source_ids": ["x"], "target_ids": [], "beam_size": 1, "length_penalty": 1}]}',
        '{"samples": [{"source": "a", "source_ids": [1], "target_ids": [], "beam_size": 0, "length_penalty": 1}]}',
        '{"samples": []}',
    ],
)
def test_a_certificate_without_samples_is_refused(
    directory: Path, relist: Callable[[Path], None], certificate: str
) -> None:
    (directory / "certificate.json").write_text(certificate)
    relist(directory)
    assert "certificate.json" in reasons(directory)


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link out of the repository": lambda path: path.symlink_to("/etc/passwd"),
}


@pytest.mark.parametrize("name", ["manifest.json", "weights.bin", "shared.spm"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_only_regular_files_of_the_repository_are_opened(directory: Path, name: str, kind: str) -> None:
    (directory / name).unlink()
    SPECIAL[kind](directory / name)
    assert name in reasons(directory)


def test_the_files_of_a_volume_of_kubernetes_are_links_within_it(directory: Path) -> None:
    (directory / "..2026_01_01").mkdir()
    for path in [path for path in directory.iterdir() if path.is_file()]:
        path.rename(directory / "..2026_01_01" / path.name)
        path.symlink_to(Path("..data") / path.name)
    (directory / "..data").symlink_to("..2026_01_01")
    assert load_bundle(directory).directory == directory


def test_files_may_be_links_to_other_folders_of_the_repository(repository: Path, directory: Path) -> None:
    (repository / ".store").mkdir()
    shutil.move(directory / "weights.bin", repository / ".store" / "blob")
    (directory / "weights.bin").symlink_to("../../.store/blob")
    assert [name for name, _ in load_bundle(directory).file_states if name == "weights.bin"]


def test_a_model_or_a_version_may_be_a_link_to_a_folder_anywhere(repository: Path, tmp_path: Path) -> None:
    for name in ("small", "small/1"):
        moved = tmp_path / f"elsewhere-{name.count('/')}" / name
        moved.parent.mkdir(parents=True)
        shutil.move((repository / name).resolve(), moved)
        (repository / name).symlink_to(moved)
        [directory] = find_bundles(repository)
        assert load_bundle(directory).manifest.model == "small"


@pytest.mark.parametrize("name", ["small/2", "other"])
def test_a_folder_that_is_a_link_to_nowhere_is_refused_alone(repository: Path, directory: Path, name: str) -> None:
    (repository / name).symlink_to("nowhere")
    broken = repository / name
    assert set(find_bundles(repository)) == {directory, broken}
    assert "manifest.json is missing" in reasons(broken)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
@pytest.mark.parametrize("name", ["manifest.json", "weights.bin", "", ".."])
def test_what_may_not_be_read_is_refused_alone(repository: Path, directory: Path, name: str) -> None:
    shutil.copytree(repository / "small", repository / "other")
    locked = Path(os.path.normpath(repository / "other" / "1" / name))
    locked.chmod(0)
    try:
        assert directory in find_bundles(repository)
        [broken] = [path for path in find_bundles(repository) if path != directory]
        assert "Permission denied" in reasons(broken)
    finally:
        locked.chmod(0o755)


def test_a_file_larger_than_its_limit_is_not_read(directory: Path) -> None:
    os.truncate(directory / "MODEL_CARD.md", 1 << 40)
    with pytest.raises(BundleError, match="has more than 1024 bytes"):
        read_limited(directory, "MODEL_CARD.md", 1024)


def test_a_folder_of_many_files_is_refused_in_few_words(directory: Path) -> None:
    for number in range(1500):
        (directory / f"{number}").touch()
    assert reasons(directory) == "the folder has more than 1000 entries"


FILE_CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "cut": lambda path: os.truncate(path, 1),
    "replaced": lambda path: (
        path.with_suffix(".old").write_bytes(path.read_bytes()) and path.with_suffix(".old").rename(path)
    ),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("change", FILE_CHANGES)
def test_a_file_that_changes_after_its_digest_was_computed_is_named(directory: Path, change: str) -> None:
    states = load_bundle(directory).file_states
    assert not list(changed_files(directory, states))
    FILE_CHANGES[change](directory / "weights.bin")
    [reason] = changed_files(directory, states)
    assert reason.startswith("weights.bin ")


def test_reasons_are_short_few_and_printable() -> None:
    error = BundleError(Path("small/1"), ["a\x1b[31m\n\ud800", "x" * 10_000, *"abc" * 10])
    assert error.reasons[0] == "a\\x1b[31m\\n\\ud800"
    assert len(error.reasons[1]) < MAX_REASON_CHARACTERS + 10
    assert error.reasons[MAX_REASONS:] == ("and 12 more",)
