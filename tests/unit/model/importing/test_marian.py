"""Reading directories of MarianMT models; tests/contract compares what comes out with transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import edit, refused
from safetensors.torch import load_file, save_file
from tied_names import TABLES

from xuanzang.model.__main__ import main
from xuanzang.model.checkpoint import load_checkpoint, save_checkpoint
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.tokenizer_training import copy_tokenizers
from xuanzang.model.importing.directory import DirectoryError, parse_readme
from xuanzang.model.importing.family import Wanted
from xuanzang.model.importing.importer import import_model
from xuanzang.model.importing.language_codes import language_code
from xuanzang.model.stored_checkpoint import ORIGIN_FILE
from xuanzang.model.translation import translate_texts

README = """---
language:
- zh
- en

tags:
- translation

license: cc-by-4.0
---

### zho-eng

* source group: Chinese
"""


@pytest.fixture
def directory(write_marian: Callable[..., Any], tmp_path: Path) -> Path:
    write_marian(tmp_path / "opus-mt-zh-en")
    (tmp_path / "opus-mt-zh-en" / "README.md").write_text(README, encoding="utf-8")
    return tmp_path / "opus-mt-zh-en"


def edit_weights(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def test_the_command_writes_a_checkpoint_that_says_where_it_comes_from(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = directory.parent / "checkpoint"
    assert main(["import", str(directory), "--output", str(output)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{output}: translates zh into en\n"
    checkpoint = load_checkpoint(output)
    imported = {"name": "opus-mt-zh-en", "licence": "cc-by-4.0", "revision": "", "files": {}}
    assert checkpoint.training == {"step": 0, "imported": imported}
    assert (output / ORIGIN_FILE).read_text(encoding="utf-8").startswith("### zho-eng")
    config = checkpoint.model.config
    assert (config.norm, config.positions, config.activation) == ("post", "sinusoidal_halves", "swish")
    assert config.share_embeddings
    assert config.tie_output
    assert config.bos_id == config.pad_id == config.target_vocab_size - 1
    assert config.banned_ids == (config.pad_id,)
    assert translate_texts(checkpoint, ["我有一只猫。"])[0][0][0]


def test_a_checkpoint_that_is_written_again_keeps_its_tables(directory: Path, tmp_path: Path) -> None:
    import_model(directory, tmp_path / "checkpoint")
    first = load_checkpoint(tmp_path / "checkpoint")
    save_checkpoint(
        tmp_path / "again", dict(first.model.named_parameters()), first.model.config, first.folder, first.training
    )
    again = load_checkpoint(tmp_path / "again")
    assert again.source_ids("我有一只猫。") == first.source_ids("我有一只猫。")
    assert again.model.config == first.model.config
    assert (tmp_path / "again" / ORIGIN_FILE).is_file()


def test_tokenisers_with_tables_cannot_prepare_training_data(directory: Path, tmp_path: Path) -> None:
    import_model(directory, tmp_path / "checkpoint")
    with pytest.raises(CorpusError, match="have ids of their own"):
        copy_tokenizers(tmp_path / "checkpoint", tmp_path)


def test_old_files_that_name_one_table_four_times_and_hold_positions_are_read(
    directory: Path, write_marian: Callable[..., Any], tmp_path: Path
) -> None:
    import_model(directory, tmp_path / "new names")
    state = write_marian(tmp_path / "other").state_dict()
    assert {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.encoder.embed_positions.weight"} <= set(state)
    torch.save(state, directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    (directory / "model.safetensors").unlink()
    import_model(directory, tmp_path / "old names")
    new, old = (load_checkpoint(tmp_path / name).model.state_dict() for name in ("new names", "old names"))
    assert all(torch.equal(new[name], old[name]) for name in new)


@pytest.mark.parametrize("kept", TABLES[2:])
def test_a_tied_output_of_two_vocabularies_is_found_under_either_name(
    write_marian: Callable[..., Any], tmp_path: Path, kept: str
) -> None:
    folder = tmp_path / "opus-mt"
    state = write_marian(folder, separate=True).state_dict()
    import_model(folder, tmp_path / "expected")
    edit_weights(folder / "model.safetensors", lambda tensors: [tensors.pop(name, None) for name in TABLES[2:]])
    edit_weights(folder / "model.safetensors", lambda tensors: tensors.update({kept: state["lm_head.weight"].clone()}))
    import_model(folder, tmp_path / "found")
    expected, found = (load_checkpoint(tmp_path / name).model.state_dict() for name in ("expected", "found"))
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    edit_weights(folder / "model.safetensors", lambda tensors: tensors.pop(kept))
    assert "missing model.decoder.embed_tokens.weight" in refused(folder), "the source's table is another"


def test_an_output_of_its_own_that_the_file_lacks_is_named(directory: Path) -> None:
    edit(directory / "config.json", tie_word_embeddings=False)
    assert refused(directory) == "missing lm_head.weight"


def test_all_missing_files_are_named_at_once(directory: Path) -> None:
    for name in ("vocab.json", "source.spm", "target.spm", "model.safetensors"):
        (directory / name).unlink()
    assert refused(directory) == (
        "missing model.safetensors or pytorch_model.bin; missing source.spm; missing target.spm; missing vocab.json"
    )
    (directory / "config.json").unlink()
    assert refused(directory) == "missing config.json"


def test_a_model_with_a_tokeniser_of_moses_is_refused_with_the_reason(tmp_path: Path) -> None:
    directory = tmp_path / "wmt19-en-de"
    directory.mkdir()
    config = {"architectures": ["FSMTForConditionalGeneration"], "model_type": "fsmt", "langs": ["en", "de"]}
    (directory / "config.json").write_text(json.dumps(config))
    assert refused(directory).startswith("config.json: the architecture is FSMTForConditionalGeneration, none of ")
    assert refused(directory).endswith(
        ". Its tokeniser is Moses with byte-pair merges; bundles hold SentencePiece models"
    )


def test_all_that_is_unsupported_missing_and_unexpected_is_told_at_once(directory: Path) -> None:
    edit(directory / "config.json", normalize_embedding=True, activation_function="gelu_new")
    edit(directory / "generation_config.json", bad_words_ids=[[3, 4]])
    edit(directory / "tokenizer_config.json", source_lang=None, unk_token={"content": "<unk>"})
    (directory / "README.md").unlink()
    (directory / "target.spm").write_bytes(b"no model")
    assert refused(directory) == (
        "target.spm is not a SentencePiece model; the source language is not named, give it with --source-language; "
        "the target language is not named, give it with --target-language; unsupported: normalize_embedding is True; "
        "unsupported: activation_function is 'gelu_new'; unsupported: bad_words_ids has [3, 4]"
    )


def test_weights_that_do_not_fit_the_network_are_listed(directory: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["model.encoder.layers.0.fc1.bias"]
        tensors["model.encoder.layernorm_embedding.weight"] = torch.ones(32)
        tensors["model.decoder.layers.1.fc2.weight"] = torch.ones(32, 60)
        tensors["lm_head.weight"] = torch.ones(3, 32)
        tensors["model.encoder.embed_positions.weight"] = torch.ones(128, 32)

    edit_weights(directory / "model.safetensors", change)
    pieces = json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    assert refused(directory) == (
        "lm_head.weight is not the target embedding, though config.json ties them; "
        "missing model.encoder.layers.0.fc1.bias; "
        "model.decoder.layers.1.fc2.weight has shape [32, 60], expected [32, 64]; "
        f"lm_head.weight has shape [3, 32], expected [{pieces}, 32]; "
        "unexpected model.encoder.layernorm_embedding.weight; "
        "unsupported: model.encoder.embed_positions.weight is not the table of sines and cosines"
    )


def test_a_vocabulary_of_another_model_is_refused(directory: Path) -> None:
    pieces = json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    edit(directory / "vocab.json", surplus=pieces)
    edit(directory / "generation_config.json", eos_token_id=2)
    assert refused(directory) == (
        f"vocab.json has {pieces + 1} pieces, config.json says {pieces}; "
        "unsupported: '</s>' is 0 in vocab.json, but eos_token_id is 2"
    )
    edit(directory / "config.json", vocab_size=pieces + 1)
    edit(directory / "vocab.json", surplus=7)
    assert f"vocab.json: the ids are not 0 to {pieces}, each once" in refused(directory)


def test_an_existing_folder_is_not_replaced(directory: Path) -> None:
    with pytest.raises(DirectoryError, match="exists"):
        import_model(directory, directory)


def test_a_model_of_several_languages_is_told_which_to_write(write_marian: Callable[..., Any], tmp_path: Path) -> None:
    write_marian(tmp_path / "directory", languages=("cmn_Hans", "cmn_Hant", "yue", "Latin script"))
    everything = import_model(tmp_path / "directory", tmp_path / "checkpoint")
    assert everything.targets == ["zh-Hans", "zh-Hant", "yue"]
    checkpoint = load_checkpoint(tmp_path / "checkpoint")
    assert checkpoint.source_ids("猫")[0] == everything.prefix_ids["zh-Hans"] == 2
    flags = ["--output", str(tmp_path / "some"), "--target-language", "yue", "zh-TW=cmn_Hant"]
    assert main(["import", str(tmp_path / "directory"), *flags]) == 0
    assert load_checkpoint(tmp_path / "some").metadata.language_prefix_ids == {"yue": 4, "zh-TW": 3}
    assert load_checkpoint(tmp_path / "some").source_ids("猫")[0] == 4
    with pytest.raises(DirectoryError, match="the vocabulary has no piece >>fr<<"):
        import_model(tmp_path / "directory", tmp_path / "wrong", Wanted(targets=["fr"]))


def test_languages_that_are_given_come_first(directory: Path, tmp_path: Path) -> None:
    wanted = Wanted(sources=["zh", "yue"], targets=["en-GB"])
    languages = import_model(directory, tmp_path / "checkpoint", wanted)
    assert languages[:3] == (["zh", "yue"], ["en-GB"], {})
    assert load_checkpoint(tmp_path / "checkpoint").metadata.other_source_languages == ["yue"]
    with pytest.raises(DirectoryError, match="there can be only one target language"):
        import_model(directory, tmp_path / "other", Wanted(targets=["en", "de"]))
    with pytest.raises(DirectoryError, match="'CHINESE' is no BCP-47 code"):
        import_model(directory, tmp_path / "other", Wanted(sources=["CHINESE"]))


def test_the_readme_tells_the_languages_if_the_tokeniser_does_not(directory: Path, tmp_path: Path) -> None:
    edit(directory / "tokenizer_config.json", source_lang="CHINESE", target_lang=None)
    assert import_model(directory, tmp_path / "checkpoint")[:2] == (["zh"], ["en"])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("zh", "zh"),
        ("zho", "zh"),
        ("cmn_Hans", "zh-Hans"),
        ("srp_Cyrl", "sr-Cyrl"),
        ("pt_br", "pt-BR"),
        ("ceb", "ceb"),
        ("yue_Hant", "yue-Hant"),
        ("ROMANCE", None),
        ("", None),
    ],
)
def test_language_codes_become_bcp_47(name: str, code: str | None) -> None:
    assert language_code(name) == code


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        ("language: zh", ["zh"]),
        ("language: [zh, en]", ["zh", "en"]),
        ("language:\r\n  - zh\r\n  - pt-BR\r\ntags:\r\n- x", ["zh", "pt-BR"]),
        ("tags:\n- translation", []),
    ],
)
def test_readmes_tell_languages_and_licence(header: str, languages: list[str]) -> None:
    readme = parse_readme(f'---\n{header}\nlicense: "apache-2.0"\n---\n# Title\n')
    assert readme == ("# Title", "apache-2.0", languages)
    assert parse_readme("# Title\nlicense: none") == ("# Title\nlicense: none", "", [])
