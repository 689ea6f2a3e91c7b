from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from xuanzang.command.folders import recover, replacing, settled
from xuanzang.model.checkpoint import load_checkpoint, save_checkpoint
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.stored_checkpoint import CheckpointError


@pytest.fixture
def model(make_model: Callable[..., Transformer]) -> Transformer:
    return make_model(source_vocab_size=300, target_vocab_size=300)


@pytest.fixture
def saved(model: Transformer, data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "best"
    save_checkpoint(folder, dict(model.named_parameters()), model.config, data, training={"step": 7})
    return folder


def test_what_is_saved_is_what_is_loaded(saved: Path, model: Transformer) -> None:
    checkpoint = load_checkpoint(saved)
    assert checkpoint.model.config == model.config
    assert not checkpoint.model.training
    for name, parameter in checkpoint.model.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name))
    assert checkpoint.training == {"step": 7}
    assert checkpoint.metadata.target_language == "en"
    assert checkpoint.target_tokenizer.decode(checkpoint.source_tokenizer.encode("猫 cat")) == "猫 cat"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_files_have_the_mode_that_the_umask_gives(saved: Path, tmp_path: Path, umask: int, mode: int) -> None:
    checkpoint, before = load_checkpoint(saved), os.umask(umask)
    try:
        weights = dict(checkpoint.model.named_parameters())
        save_checkpoint(tmp_path / "again", weights, checkpoint.model.config, saved, {})
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "again").iterdir()} == dict.fromkeys(
        (path.name for path in saved.iterdir()), mode
    )


def test_every_fault_of_the_weights_is_listed(saved: Path) -> None:
    path = saved / "model.safetensors"
    tensors = load_file(path)
    del tensors["encoder_norm.bias"], tensors["decoder_norm.bias"]
    save_file(tensors | {"extra": torch.ones(2), "encoder_norm.weight": torch.ones(3)}, path)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(saved)
    for fault in (
        "missing encoder_norm.bias",
        "missing decoder_norm.bias",
        "unexpected extra",
        "encoder_norm.weight has shape [3], expected [64]",
    ):
        assert fault in str(caught.value)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_are_not_written(saved: Path, model: Transformer, value: float) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    weights["encoder_norm.bias"][3] = value
    with pytest.raises(CheckpointError, match=r"encoder_norm\.bias has values that are infinite or not a number"):
        save_checkpoint(saved, weights, model.config, saved, {})
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_every_missing_file_is_listed(saved: Path) -> None:
    (saved / "config.json").unlink()
    (saved / "target.spm").unlink()
    with pytest.raises(CheckpointError, match=r"missing config\.json, target\.spm$"):
        load_checkpoint(saved)
    with pytest.raises(CheckpointError, match=r"nowhere: missing model\.safetensors, config\.json"):
        load_checkpoint(saved / "nowhere")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "training.json", "metadata.json", "source.spm", "target.spm"]
)
def test_a_truncated_file_is_named(saved: Path, name: str) -> None:
    path = saved / name
    path.write_bytes(path.read_bytes()[:-20] if name != "training.json" else b"{")
    with pytest.raises(CheckpointError, match=re.escape(name)):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 65}, "must be even"),
        ({"d_model": "64"}, r"config\.json"),
        ({"width": 3}, "unexpected keyword argument 'width'"),
        ({"source_vocab_size": 200, "target_vocab_size": 200}, r"source\.spm: has 300 pieces, the model 200"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(saved: Path, change: dict[str, object], message: str) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(saved)


def test_a_failed_write_leaves_the_old_folder_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with replacing(folder, marker="file") as scratch:
        (scratch / "file").write_text("old")

    def write_half() -> None:
        with replacing(folder, marker="file") as scratch:
            (scratch / "file").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert (folder / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_of_other_things_is_never_replaced(
    tmp_path: Path, model: Transformer, data: Path, *, is_link: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter").write_text("mine")
    folder = tmp_path / "link" if is_link else home
    if is_link:
        folder.symlink_to(home)
    with pytest.raises(FileExistsError, match=r"has no training\.json"):
        save_checkpoint(folder, dict(model.named_parameters()), model.config, data, training={"step": 8})
    assert {path.name: path.read_text() for path in home.iterdir()} == {"letter": "mine"}
    assert {path.name for path in tmp_path.iterdir()} >= {"home"}
    assert not list(tmp_path.glob(".*"))


def work_of_a_killed_write(folder: Path) -> Path:
    """Let a write begin, leave what it has on the disk as it is, and return the folder it worked in."""
    copy = folder.with_name("copy")
    with contextlib.suppress(KeyboardInterrupt), replacing(folder, marker="training.json") as scratch:
        (scratch / "junk").write_text("junk")
        shutil.copytree(work := scratch.parent, copy)
        raise KeyboardInterrupt
    return copy.rename(work)


def test_a_replacement_cut_off_between_its_renames_is_still_readable_and_is_undone(saved: Path) -> None:
    work = work_of_a_killed_write(saved)
    saved.rename(work / "old")
    assert load_checkpoint(saved).training == {"step": 7}
    assert settled(saved) != saved
    recover(saved)
    assert settled(saved) == saved
    assert load_checkpoint(saved).training == {"step": 7}
    assert list(saved.parent.iterdir()) == [saved]


def test_leftovers_of_a_killed_write_do_no_harm(saved: Path, model: Transformer, data: Path) -> None:
    work = work_of_a_killed_write(saved)
    shutil.copytree(saved, work / "old")
    save_checkpoint(saved, dict(model.named_parameters()), model.config, data, training={"step": 8})
    assert load_checkpoint(saved).training == {"step": 8}
    assert list(saved.parent.iterdir()) == [saved]


def test_files_of_others_beside_a_checkpoint_are_kept(saved: Path, model: Transformer, data: Path) -> None:
    for name in (".best.partial", ".best.old"):
        saved.with_name(name).mkdir()
        saved.with_name(name).joinpath("letter").write_text("mine")
    save_checkpoint(saved, dict(model.named_parameters()), model.config, data, training={"step": 8})
    work = work_of_a_killed_write(saved)
    (work / "letter").write_text("mine")
    save_checkpoint(saved, dict(model.named_parameters()), model.config, data, training={"step": 9})
    assert load_checkpoint(saved).training == {"step": 9}
    assert sorted(path.parent.name for path in saved.parent.rglob("letter")) == [
        ".best.old",
        ".best.partial",
        work.name,
    ]


@pytest.mark.parametrize("is_between", [False, True])
def test_no_folder_is_written_where_others_have_what_it_would_work_in(
    saved: Path, model: Transformer, data: Path, *, is_between: bool
) -> None:
    work = work_of_a_killed_write(saved)
    shutil.rmtree(work)
    for part in ("old", "new"):
        shutil.copytree(saved, work / part)
    if is_between:
        saved.rename(saved.with_name("elsewhere"))
    before = sorted(saved.parent.rglob("*"))
    assert settled(saved) == saved
    with pytest.raises(FileExistsError, match="was not made by xuanzang"):
        save_checkpoint(saved, dict(model.named_parameters()), model.config, data, training={"step": 8})
    assert sorted(saved.parent.rglob("*")) == before


def test_a_link_to_a_checkpoint_is_kept_and_what_it_points_to_is_replaced(
    saved: Path, model: Transformer, data: Path, tmp_path: Path
) -> None:
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(saved)
    for step in (8, 9):
        save_checkpoint(link, dict(model.named_parameters()), model.config, data, training={"step": step})
        assert load_checkpoint(saved).training == {"step": step}
    saved.rename(work_of_a_killed_write(saved) / "old")
    assert load_checkpoint(link).training == {"step": 9}
    assert [path.name for path in link.parent.iterdir()] == ["link"]
