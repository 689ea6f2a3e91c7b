"""The whole export, and what it refuses."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from google.protobuf import json_format

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.__main__ import main
from xuanzang.export.bundle.folder import next_version, write_bundle
from xuanzang.export.calibration import calibrate, reference_ids
from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.certification.quality import require_quality
from xuanzang.export.examples import Example
from xuanzang.export.exporter import export
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.data.corpus import CorpusError


def export_settings(checkpoint: Path, valid: Path, repository: Path, **changes: object) -> ExportSettings:
    values: dict[str, object] = {
        "checkpoint": checkpoint,
        "repository": repository,
        "model": "toy",
        "valid": valid,
        "parity_sentences": 4,
        "evaluation_sentences": 12,
        "calibration_sentences": 12,
        "beam_size": 2,
    }
    return ExportSettings.model_validate(values | changes)


def read_manifest(folder: Path) -> manifest_pb2.Manifest:
    manifest = manifest_pb2.Manifest()
    json_format.Parse((folder / "manifest.json").read_text(encoding="utf-8"), manifest)
    return manifest


def test_an_int8_bundle_lists_every_file_with_its_digest(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path: Path
) -> None:
    # Random weights agree on few translations; more sentences give the samples something to choose from.
    settings = export_settings(
        tiny_checkpoint,
        toy_files[1],
        tmp_path,
        precision="int8",
        evaluation_sentences=48,
        test={"train": toy_files[0]},
        test_sentences=48,
        max_bleu_change=100,
        max_chrf_change=100,
    )
    folder = export(settings)
    manifest = read_manifest(folder)
    assert folder == tmp_path / "toy" / "1"
    assert manifest.precision == manifest_pb2.PRECISION_INT8
    assert {file.name for file in manifest.files} | {"manifest.json"} == {path.name for path in folder.iterdir()}
    for file in manifest.files:
        content = (folder / file.name).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (file.sha256, file.size_bytes)
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    compared = certificate["shipped_quality"]
    assert {name: measured["sentences"] for name, measured in compared.items()} == {"valid": 48, "train": 48}
    for precision in ("float32", "int8"):  # the same sentences have the same scores wherever they stand
        found = {metric: compared["valid"][f"{precision}_{metric}"] for metric in ("bleu", "chrf")}
        assert found == certificate["quality"][f"onnx_{precision}"]
    for metric in ("bleu", "chrf"):
        change, low, high = (compared["train"][f"int8_{metric}_change{end}"] for end in ("", "_low", "_high"))
        scores = [compared["train"][f"{precision}_{metric}"] for precision in ("float32", "int8")]
        assert change == pytest.approx(scores[1] - scores[0], abs=0.002)
        assert low <= high
    assert "| train (48) |" in (folder / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_a_float16_bundle_keeps_keys_and_values_in_16_bits_and_scores_in_32(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path: Path
) -> None:
    limits = {"max_bleu_change": 100, "max_chrf_change": 100}
    folder = export(export_settings(tiny_checkpoint, toy_files[1], tmp_path, precision="float16", **limits))
    manifest = read_manifest(folder)
    assert manifest.precision == manifest_pb2.PRECISION_FLOAT16
    dtypes = {tensor.name: tensor.dtype for tensor in (*manifest.decoder.inputs, *manifest.decoder.outputs)}
    assert {dtype for name, dtype in dtypes.items() if "key_values" in name} == {"float16"}
    assert {dtypes[name] for name in ("scores", "edit_biases", "candidate_scores", "attention")} == {"float32"}
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["parity"]["float16"]["max_abs_difference"] < 0.05
    assert "| pairs | float32 | float16 |" in (folder / "MODEL_CARD.md").read_text(encoding="utf-8")


def changed(bleu: tuple[float, float, float], chrf: tuple[float, float, float]) -> dict[str, float]:
    """Return a row of `shipped_quality` with a change of each metric and the ends of its interval."""
    quality = {"sentences": 300.0}
    for metric, change in (("bleu", bleu), ("chrf", chrf)):
        names = (f"int8_{metric}_change", f"int8_{metric}_change_low", f"int8_{metric}_change_high")
        quality |= dict(zip(names, change, strict=True))
    return quality


@pytest.mark.parametrize(
    ("bleu", "chrf", "faults"),
    [
        ((0.0, -0.1, 0.1), (0.0, -0.1, 0.1), ()),
        ((4.0, 3.0, 5.0), (0.3, 0.25, 0.4), ()),  # a gain, however sure
        ((-0.9, -2.0, -0.29), (-0.5, -1.0, 0.1), ()),  # losses that the sample leaves in doubt
        ((-0.9, -1.5, -0.31), (0.0, -0.1, 0.1), ("0.90 BLEU lost on web (90% interval 0.31 to 1.50, 300 pairs)",)),
        ((-1.0, -1.2, -0.8), (-0.3, -0.4, -0.21), ("1.00 BLEU lost on web", "0.30 chrF lost on web")),
    ],
)
def test_only_a_loss_beyond_doubt_is_refused(
    tmp_path: Path, bleu: tuple[float, float, float], chrf: tuple[float, float, float], faults: tuple[str, ...]
) -> None:
    settings = export_settings(tmp_path, tmp_path, tmp_path)
    with pytest.raises(ParityError) if faults else nullcontext() as refused:
        require_quality({"web": changed(bleu, chrf)}, "int8", settings)
    for part in (*faults, "--calibration-sentences", "--precision", "--max-bleu-change") if faults else ():
        assert part in str(refused.value)  # type: ignore[union-attr]


def test_the_certificate_holds_parity_quality_speed_and_samples(tiny_bundle_repository: Path) -> None:
    certificate = json.loads((tiny_bundle_repository / "tiny" / "1" / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["parity"]["float32"]["max_abs_difference"] < 1e-4
    assert certificate["parity"]["float32"]["token_agreement"] == 1.0
    assert set(certificate["quality"]) == {"onnx_float32"}
    assert certificate["measured_on"] == "pairs"
    assert certificate["directions"] == ["zh to en"]
    assert set(certificate["step_milliseconds"]["float32"]) == {"10", "200"}
    assert certificate["samples"]


def test_an_export_that_fails_parity_leaves_nothing_behind(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path: Path
) -> None:
    settings = export_settings(
        tiny_checkpoint, toy_files[1], tmp_path, precision="float32", max_float32_difference=1e-12
    )
    with pytest.raises(ParityError, match=r"differ from numpy by .* the limit is 1e-12"):
        export(settings)
    assert list(tmp_path.iterdir()) == []


def test_pairs_that_do_not_fit_the_model_are_named(tiny_checkpoint: Path, tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("猫" * 3000 + "\tcat\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="no sentence fits the model's 512 positions"):
        export(export_settings(tiny_checkpoint, valid, tmp_path / "models"))


def test_versions_count_up_and_ignore_other_folders(tmp_path: Path) -> None:
    assert next_version(tmp_path / "absent") == 1
    for name in ("2", "10", "9x", "notes"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11


def test_a_bundle_replaces_the_one_of_its_version(tmp_path: Path) -> None:
    folder = tmp_path / "toy" / "1"
    write_bundle(folder, {"old.bin": b"old"}, manifest_pb2.Manifest(format=2))
    write_bundle(folder, {"new.bin": b"new"}, manifest_pb2.Manifest(format=2))
    assert {path.name for path in folder.iterdir()} == {"new.bin", "manifest.json"}
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


def test_the_order_of_maps_leaves_the_manifest_as_it_is(tmp_path: Path) -> None:
    versions = dict.fromkeys(("torch", "onnx", "sacrebleu", "python", "onnxruntime"), "1")
    for folder, order in (("1", sorted(versions)), ("2", sorted(versions, reverse=True))):
        provenance = manifest_pb2.Provenance(tool_versions={name: versions[name] for name in order})
        write_bundle(tmp_path / folder, {}, manifest_pb2.Manifest(format=2, provenance=provenance))
    manifests = [(tmp_path / folder / "manifest.json").read_bytes() for folder in ("1", "2")]
    assert manifests[0] == manifests[1]
    assert list(json.loads(manifests[0])["provenance"]["tool_versions"]) == sorted(versions)


def test_calibrated_ranges_cover_what_relu_and_norm_can_give(
    tiny_checkpoint: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    examples = [Example(source, checkpoint.source_ids(source), [], "", target) for source, target in toy_pairs[:20]]
    ranges = calibrate(checkpoint.network, reference_ids(checkpoint, examples))
    assert ranges.keys() >= {"output_projection", "encoder_layers.0.feed_forward.outer"}
    assert ranges["encoder_layers.0.feed_forward.outer"].low == 0.0  # after a ReLU
    assert all(low <= 0.0 <= high and low < high for low, high in ranges.values())


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--model", "Bad Name"], "--model: ", 2),
        (["--model", "toy", "--checkpoint", "absent"], "absent", 1),
    ],
)
def test_the_command_line_says_in_one_line_what_is_wrong(
    toy_files: tuple[Path, Path],
    tmp_path: Path,
    arguments: list[str],
    message: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    common = ["--repository", str(tmp_path), "--valid", str(toy_files[1]), "--checkpoint", str(tmp_path)]
    try:
        status = main(["export", *common, *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == code
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_help_shows_no_types_of_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    flags = capsys.readouterr().out.split("\noptions:\n", 1)[1]
    assert {"--card PATH", "--version N", "--max-bleu-change X", "--test NAME=PATH"} <= {
        " ".join(line.split()[:2]) for line in flags.splitlines() if line.startswith("  --")
    }
