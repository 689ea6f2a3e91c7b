"""Reading directories of models of many languages; tests/contract compares what comes out with transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from multilingual_directories import NLLB_LANGUAGES, SPM, write_m2m, write_mbart, write_nllb
from refusals import edit, refused
from safetensors.torch import load_file, save_file
from tied_names import renamed

from xuanzang.model.__main__ import main
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.importing.directory import DirectoryError
from xuanzang.model.importing.family import Wanted
from xuanzang.model.importing.importer import import_model
from xuanzang.model.importing.language_codes import codes_of
from xuanzang.model.stored_checkpoint import CheckpointError
from xuanzang.model.translation import translate_texts

FAMILIES: dict[str, Callable[..., Any]] = {"NLLB-200": write_nllb, "M2M-100": write_m2m, "mBART-50": write_mbart}


@pytest.fixture(params=FAMILIES)
def directory(request: pytest.FixtureRequest, shared_tokenizer: Path, tmp_path: Path) -> Path:
    FAMILIES[request.param](shared_tokenizer, tmp_path / "directory")
    return tmp_path / "directory"


@pytest.fixture
def nllb(shared_tokenizer: Path, tmp_path: Path) -> Path:
    write_nllb(shared_tokenizer, tmp_path / "directory")
    return tmp_path / "directory"


def test_the_command_translates_between_two_of_the_languages(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = directory.parent / "checkpoint"
    assert main(["import", str(directory), "--output", str(output)]) == 0
    assert " translates " in capsys.readouterr().out
    checkpoint = load_checkpoint(output).between("zh", "fr")
    assert checkpoint.target_prefix_ids == [checkpoint.metadata.target_language_ids["fr"]]
    [[(text, score)]] = translate_texts(checkpoint, ["我有一只猫。"])
    assert score < 0
    assert not any(name in text for name in ("fr_XX", "fra_Latn", "__fr__"))
    with pytest.raises(CheckpointError, match="target-language is 'xx'"):
        checkpoint.between("zh", "xx")


def test_all_missing_files_are_named_at_once(directory: Path) -> None:
    (directory / SPM).unlink()
    (directory / "model.safetensors").unlink()
    assert refused(directory) == f"missing model.safetensors or pytorch_model.bin; missing {SPM}"


def test_weights_and_settings_that_do_not_fit_are_told_at_once(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    del tensors["model.encoder.layer_norm.bias"]
    tensors["model.encoder.surplus"] = torch.ones(3)
    save_file(tensors, directory / "model.safetensors")
    faults = refused(directory)
    assert faults == "missing model.encoder.layer_norm.bias; unexpected model.encoder.surplus"
    edit(directory / "config.json", activation_function="tanh", normalize_embedding="odd", encoder_ffn_dim=32)
    edit(directory / "generation_config.json", suppress_tokens=[3], forced_bos_token_id=5)
    (directory / SPM).write_bytes(b"no model")
    faults = refused(directory)
    for fault in ("normalize_embedding is odd", "activation_function is 'tanh'", "ffn_dim differ", "suppress_tokens"):
        assert fault in faults
    assert f"{SPM} is not a SentencePiece model" in faults


def test_a_tied_table_is_found_under_any_of_its_names(directory: Path, tmp_path: Path) -> None:
    import_model(directory, tmp_path / "expected")
    expected = load_checkpoint(tmp_path / "expected").model
    assert expected.config.share_embeddings
    assert expected.config.tie_output
    for name in renamed(directory):
        import_model(directory, tmp_path / name)
        found = load_checkpoint(tmp_path / name).model
        assert found.config == expected.config
        assert all(torch.equal(tensor, found.state_dict()[key]) for key, tensor in expected.state_dict().items()), name


def test_a_vocabulary_that_is_too_large_for_the_network_is_refused(directory: Path) -> None:
    size = json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    edit(directory / "config.json", vocab_size=50)
    assert ", config.json says 50" in refused(directory)
    edit(directory / "config.json", vocab_size=size, eos_token_id=7)
    edit(directory / "generation_config.json", eos_token_id=7)
    assert "unsupported: eos_token_id is 7, which is " in refused(directory)


def test_a_directory_that_names_no_languages_is_refused(nllb: Path) -> None:
    (nllb / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    assert refused(nllb) == "neither tokenizer_config.json, tokenizer.json nor special_tokens_map.json names languages"


def test_languages_are_found_in_other_files_too(nllb: Path, tmp_path: Path) -> None:
    import_model(nllb, tmp_path / "first")
    expected = load_checkpoint(tmp_path / "first").metadata
    added = json.loads((nllb / "tokenizer_config.json").read_text(encoding="utf-8"))["added_tokens_decoder"]
    (nllb / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    tokens = [{"id": int(number), "content": token["content"]} for number, token in added.items()]
    (nllb / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}), encoding="utf-8")
    import_model(nllb, tmp_path / "second")
    assert load_checkpoint(tmp_path / "second").metadata == expected
    (nllb / "tokenizer.json").unlink()
    ordered = {"additional_special_tokens": [*NLLB_LANGUAGES]}
    (nllb / "special_tokens_map.json").write_text(json.dumps(ordered), encoding="utf-8")
    import_model(nllb, tmp_path / "third")
    assert load_checkpoint(tmp_path / "third").metadata.target_language_ids == expected.target_language_ids


def test_languages_that_are_given_are_the_only_ones(nllb: Path, tmp_path: Path) -> None:
    wanted = Wanted(sources=["zh", "en"], targets=["fr-CA=fra_Latn", "zh-TW"])
    languages = import_model(nllb, tmp_path / "checkpoint", wanted)
    assert (languages.sources, languages.targets) == (["zh", "en"], ["fr-CA", "zh-TW"])
    with pytest.raises(DirectoryError, match="the vocabulary has no language 'de'"):
        import_model(nllb, tmp_path / "other", Wanted(targets=["de"]))


def test_a_forced_target_language_is_the_only_one(nllb: Path, tmp_path: Path) -> None:
    english = load_checkpoint_ids(nllb, tmp_path)["en"]
    edit(nllb / "generation_config.json", forced_bos_token_id=english)
    languages = import_model(nllb, tmp_path / "checkpoint")
    assert (languages.targets, len(languages.sources)) == (["en"], 10)
    edit(nllb / "generation_config.json", forced_bos_token_id=5)
    assert refused(nllb) == "unsupported: forced_bos_token_id is 5, which is no language"


def load_checkpoint_ids(directory: Path, tmp_path: Path) -> dict[str, int]:
    import_model(directory, tmp_path / "of ids")
    return load_checkpoint(tmp_path / "of ids").metadata.target_language_ids


def test_defaults_that_differ_from_those_of_transformers_are_named_with_what_makes_them_equal(
    nllb: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(nllb / "generation_config.json", num_beams=5, length_penalty=1.2, forced_eos_token_id=2)
    import_model(nllb, tmp_path / "checkpoint")
    assert load_checkpoint(tmp_path / "checkpoint").metadata.forces_end
    assert [record.getMessage() for record in caplog.records] == [
        "num_beams is 5 in transformers, 4 here; equal by xuanzang export --beam-size 5, or beam_size of a request",
        "early_stopping is False in transformers, True here; equal by xuanzang export --stopping none-better",
        (
            "length_penalty is 1.2 in transformers, 1.0 here; equal by xuanzang export --length-penalty 1.2, or "
            "length_penalty of a request"
        ),
        "min_length is 0 in transformers, 1 here; equal by min_target_length=0 of a request",
        "max_length is 20 in transformers, 2 × source tokens + 20 here; equal by max_target_length=20 of a request",
    ]


def test_old_tables_of_positions_are_those_that_the_network_computes(nllb: Path, tmp_path: Path) -> None:
    from transformers import M2M100ForConditionalGeneration

    model = M2M100ForConditionalGeneration.from_pretrained(nllb)
    tensors = load_file(nllb / "model.safetensors")
    name = "model.encoder.embed_positions.weights"
    save_file(tensors | {name: model.model.encoder.embed_positions.weights.clone()}, nllb / "model.safetensors")
    import_model(nllb, tmp_path / "checkpoint")
    save_file(tensors | {name: torch.ones(130, 32)}, nllb / "model.safetensors")
    assert refused(nllb) == f"unsupported: {name} is not the table of sines and cosines"


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["eng_Latn", "arb_Arab", "swh_Latn"], ["en", "ar", "sw"]),
        (["ace_Arab", "ace_Latn"], ["ace-Arab", "ace-Latn"]),
        (["zho_Hans", "zho_Hant"], ["zh-Hans", "zh-Hant", "zh", "zh-TW", "zh-HK", "zh-MO"]),
        (["zh_CN", "en_XX", "pt_XX"], ["zh", "en", "pt"]),
        (["ns", "zh", "ceb"], ["nso", "zh", "ceb"]),
        (["yue_Hant", "Latn"], ["yue"]),
    ],
)
def test_codes_have_a_script_only_where_it_tells_languages_apart(names: list[str], codes: list[str]) -> None:
    assert list(codes_of({name: number for number, name in enumerate(names)})) == codes


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("config.json", b"{", "config.json is damaged"),
        ("config.json", b"[]", "config.json is no JSON object"),
        ("config.json", b'{"architectures": ["T5ForConditionalGeneration"]}', "the architecture is T5ForConditional"),
        ("generation_config.json", b"{", "generation_config.json is damaged"),
        ("model.safetensors", b"\0" * 100, "model.safetensors is damaged"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (SPM, b"not a model", f"{SPM} is not a SentencePiece model"),
    ],
)
def test_a_damaged_file_of_any_family_is_one_clear_error(
    directory: Path, name: str, content: bytes, reason: str
) -> None:
    (directory / name).write_bytes(content)
    assert reason in refused(directory)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_weights_in_parts_are_those_of_one_file(nllb: Path, tmp_path: Path, kind: str) -> None:
    import_model(nllb, tmp_path / "whole")
    tensors = load_file(nllb / "model.safetensors")
    (nllb / "model.safetensors").unlink()
    halves = {f"part-{start}.{kind}": dict(list(tensors.items())[start::2]) for start in (0, 1)}
    for name, half in halves.items():
        save_file(half, nllb / name) if kind == "safetensors" else torch.save(half, nllb / name)
    index = {"weight_map": {key: name for name, half in halves.items() for key in half}}
    stem = {"safetensors": "model", "bin": "pytorch_model"}[kind]
    (nllb / f"{stem}.{kind}.index.json").write_text(json.dumps(index))
    import_model(nllb, tmp_path / "parts")
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize("weight_map", [{}, {"a": "../elsewhere.safetensors"}, {"a": "missing.safetensors"}])
def test_an_index_that_leads_elsewhere_is_refused(nllb: Path, weight_map: dict[str, str]) -> None:
    (nllb / "model.safetensors").unlink()
    (nllb / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert "no weight_map of files beside it" in (reasons := refused(nllb)) or "missing missing.safetensors" in reasons
