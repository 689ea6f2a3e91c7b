"""What an export is measured with, and what it says of the rest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from multilingual_directories import write_nllb
from pydantic import ValidationError

from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.examples import choose_languages, read_examples
from xuanzang.export.exporter import export
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.importing.importer import import_model
from xuanzang.model.stored_checkpoint import CheckpointError


def settings_of(checkpoint: Path, repository: Path, **changes: object) -> ExportSettings:
    values: dict[str, object] = {
        "checkpoint": checkpoint,
        "repository": repository,
        "model": "toy",
        "parity_sentences": 4,
        "test_sentences": 48,
        "min_agreement": 0,  # of random weights it means nothing
    }
    return ExportSettings.model_validate(values | changes)


@pytest.fixture
def texts(toy_pairs: list[tuple[str, str]], tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(source for source, _ in toy_pairs[:48]), encoding="utf-8")
    return path


def test_texts_without_translations_are_enough_for_an_export(
    tiny_checkpoint: Path, texts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = export(settings_of(tiny_checkpoint, tmp_path / "models", texts=texts))
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    assert (certificate["measured_on"], certificate["directions"]) == ("texts", ["zh to en"])
    assert certificate["quality"] == certificate["shipped_quality"] == {}
    assert certificate["agreement"]["sentences"] == 48
    assert 0 <= certificate["agreement"]["equal"] < 1
    assert certificate["parity"]["float32"]["token_agreement"] == 1.0
    [quality, losses] = certificate["not_measured"]
    assert "no references" in quality
    assert "48 sentences" in losses
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert f"## What was not measured\n\n* {quality}\n* {losses}\n" in card
    assert "The quality was not measured. Of 48 sentences, int8 translates" in card
    assert f"not measured: {quality}" in caplog.text


def test_precisions_that_disagree_are_refused(tiny_checkpoint: Path, texts: Path, tmp_path: Path) -> None:
    settings = settings_of(tiny_checkpoint, tmp_path / "models", texts=texts, min_agreement=100)
    with pytest.raises(ParityError, match=r"int8 translates 48 sentences otherwise .* --texts, .* --min-agreement"):
        export(settings)
    assert not (tmp_path / "models").exists()


def test_an_export_without_any_data_uses_the_sample(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = export(settings_of(tiny_checkpoint, tmp_path, precision="float32"))
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    assert (certificate["measured_on"], certificate["agreement"]) == ("sample", {})
    assert any("plain everyday sentences of the exporter" in gap for gap in certificate["not_measured"])
    assert certificate["samples"]
    assert "The quality was not measured.\n" in (folder / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_the_sample_is_read_in_all_languages_that_a_model_has(shared_tokenizer: Path, tmp_path: Path) -> None:
    write_nllb(shared_tokenizer, tmp_path / "directory")
    import_model(tmp_path / "directory", tmp_path / "checkpoint")
    checkpoint = load_checkpoint(tmp_path / "checkpoint")
    found = read_examples(checkpoint, settings_of(tmp_path, tmp_path))
    assert {direction.split(" to ")[0] for direction in found.directions[:4]} == {"en", "fr", "zh", "zh-Hant"}
    assert {"en to fr", "fr to en", "zh to en", "en to zh", "en to zh-Hant"} <= {*found.directions}
    assert not {"zh to zh-Hant", "zh-Hant to zh", "en to en"} & {*found.directions}
    names = checkpoint.metadata.target_language_ids
    assert all(example.prefix_ids == [names[example.direction.split(" to ")[1]]] for example in found.sentences)
    only = read_examples(checkpoint, settings_of(tmp_path, tmp_path, source_language="en", target_language="zh"))
    assert only.directions == ["en to zh"]
    with pytest.raises(CheckpointError, match=r"those of --texts are needed: --source-language, one of ace-Arab, "):
        choose_languages(checkpoint, settings_of(tmp_path, tmp_path, texts=tmp_path / "texts.txt"))


def test_a_model_of_another_language_gets_what_its_tokenizer_can_write(tiny_checkpoint: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    metadata = checkpoint.metadata.model_copy(update={"source_language": "yue"})
    settings = settings_of(tmp_path, tmp_path)
    found = read_examples(dataclasses.replace(checkpoint, metadata=metadata), settings)
    assert found.directions == ["yue to en"]
    assert found.sentences


def test_pairs_and_texts_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="valid and texts cannot be given both"):
        settings_of(tmp_path, tmp_path, valid=tmp_path, texts=tmp_path)


def test_large_models_are_measured_on_fewer_sentences(tmp_path: Path) -> None:
    settings = ExportSettings(checkpoint=tmp_path, repository=tmp_path, model="m", valid=tmp_path, parity_sentences=3)
    counts = {size: settings.sized_for(size) for size in (15_000_000, 77_000_000, 615_000_000)}
    assert [each.test_sentences for each in counts.values()] == [2000, 189, 12]
    assert [each.evaluation_sentences for each in counts.values()] == [500, 134, 12]
    assert [each.parity_sentences for each in counts.values()] == [3, 3, 3]
