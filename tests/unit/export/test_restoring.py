"""A checkpoint made of a bundle is the one that the bundle was made of, up to rounding."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from xuanzang.export.__main__ import main
from xuanzang.export.exporter import export
from xuanzang.export.graphs.precision import quantize_columns
from xuanzang.export.restoring import restore
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import load_checkpoint, save_checkpoint
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.stored_checkpoint import CheckpointError, origin_of
from xuanzang.model.translation import translate_ids

ROOT = Path(__file__).parents[3]
BUNDLE = max((ROOT / "server/models/zh-en").iterdir())


@pytest.fixture(scope="module")
def bundle(tiny_bundle_repository: Path) -> Path:
    return tiny_bundle_repository / "tiny" / "1"


def test_float32_weights_come_back_as_they_were(bundle: Path, tiny_checkpoint: Path, tmp_path: Path) -> None:
    restore(bundle, tmp_path / "restored")
    restored, exported = (load_checkpoint(folder) for folder in (tmp_path / "restored", tiny_checkpoint))
    torch.testing.assert_close(dict(restored.model.named_parameters()), dict(exported.model.named_parameters()))
    assert restored.metadata.source_languages == exported.metadata.source_languages
    assert (tmp_path / "restored/source.spm").read_bytes() == (tiny_checkpoint / "source.spm").read_bytes()


def test_the_default_model_restored_translates_as_its_certificate_says(bundled_checkpoint: Path) -> None:
    restored = load_checkpoint(bundled_checkpoint)
    assert (restored.metadata.source_language, restored.metadata.target_language) == ("zh", "en")
    # Sentences that the checkpoint, the float32 graphs and the int8 graphs translated alike. Weights read back are
    # rounded, so that hypotheses within a few thousandths may change places.
    samples = json.loads((BUNDLE / "certificate.json").read_text(encoding="utf-8"))["samples"]
    assert len(samples) >= 4
    for sample in samples:
        search = {key: sample[key] for key in ("beam_size", "length_penalty")}
        [found] = translate_ids(restored.model, [sample["source_ids"]], num_hypotheses=sample["beam_size"], **search)
        scores = {restored.target_tokenizer.decode(each.target_ids): each.score for each in found}
        assert scores[sample["target"]] == pytest.approx(found[0].score, abs=0.005)


def test_what_is_trained_further_inherits_the_defaults_unless_flags_say_otherwise(
    bundled_checkpoint: Path, tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path: Path
) -> None:
    tuned, tiny = tmp_path / "tuned", load_checkpoint(tiny_checkpoint)
    facts = {"step": 1, "parent": origin_of(bundled_checkpoint)}
    save_checkpoint(tuned, dict(tiny.model.named_parameters()), tiny.model.config, tiny_checkpoint, facts)
    folder = export(
        ExportSettings(
            checkpoint=tuned,
            repository=tmp_path / "models",
            model="tuned",
            precision="float32",
            valid=toy_files[1],
            parity_sentences=4,
            evaluation_sentences=12,
            beam_size=3,
        )
    )
    defaults = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["generation_defaults"]
    parent = json.loads((BUNDLE / "manifest.json").read_text(encoding="utf-8"))["generation_defaults"]
    assert parent["length_penalty"] == 1.5
    assert defaults == parent | {"beam_size": 3}


def test_quantising_restored_weights_gives_the_integers_of_the_bundle(bundled_checkpoint: Path) -> None:
    model = load_checkpoint(bundled_checkpoint).model
    constants = {c.name: numpy_helper.to_array(c) for c in onnx.load(BUNDLE / "decoder.onnx").graph.initializer}
    name = "decoder_layers.0.feed_forward.inner.weight"
    integers, _ = quantize_columns(model.get_parameter(name).detach().numpy().T)
    np.testing.assert_array_equal(integers, constants[name])


def test_models_of_other_kinds_are_refused(tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path: Path) -> None:
    config = dataclasses.replace(
        load_checkpoint(tiny_checkpoint).model.config,
        norm="post",
        activation="swish",
        positions="learned",
        scale_embeddings=False,
        output_bias=True,
    )
    model = Transformer(config)
    nn.init.ones_(model.output_projection.bias)
    save_checkpoint(tmp_path / "c", dict(model.named_parameters()), config, tiny_checkpoint, {})
    settings = {"checkpoint": tmp_path / "c", "repository": tmp_path, "model": "m", "valid": toy_files[1]}
    folder = export(
        ExportSettings(**settings, precision="float32", parity_sentences=1, evaluation_sentences=2)  # type: ignore[arg-type]
    )
    traits = "one table of embeddings, a norm before each block, ReLU, sinusoidal positions, no bias on its output"
    with pytest.raises(CheckpointError, match=f"it has not {traits}$"):
        restore(folder, tmp_path / "restored")


def test_a_folder_that_is_no_bundle_and_one_that_exists_are_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a bundle"):
        restore(tmp_path, tmp_path / "restored")
    with pytest.raises(CheckpointError, match="exists already"):
        restore(bundle, tmp_path)
    shutil.copytree(bundle, tmp_path / "damaged")
    (tmp_path / "damaged/weights.bin").unlink()
    with pytest.raises(CheckpointError, match="damaged"):
        restore(tmp_path / "damaged", tmp_path / "restored")


def test_the_command_restores_and_says_why_it_does_not(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["restore", str(bundle), str(tmp_path / "restored")]
    assert main(arguments) == 0
    assert json.loads((tmp_path / "restored/training.json").read_text())["bundle"] == "tiny/1"
    assert main(arguments) == 1
    assert "exists already" in capsys.readouterr().err
