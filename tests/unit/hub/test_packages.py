"""What is said where a package that pulling needs is missing: the commands that install it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from xuanzang.hub.commands import pull_command, push_command


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set of packages that are not found."""
    names: set[str] = set()
    monkeypatch.setattr(
        "xuanzang.hub.packages.find_spec", lambda name: None if name in names else importlib.util.find_spec(name)
    )
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    return names


@pytest.mark.parametrize("name", ["huggingface_hub", "httpx2"])
def test_the_library_of_the_hub_is_named_with_both_commands(
    missing: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    missing.add(name)
    for command, arguments in (
        (pull_command, ["pull", "a/b", f"--repository={tmp_path}"]),
        (push_command, ["", "x", "a/b"]),
    ):
        assert command(arguments) == 1
        said = capsys.readouterr().err
        assert f"{name} is not installed" in said
        assert said.count(f"{sys.executable} -m pip install -c constraints.txt -e ") == 2


@pytest.mark.parametrize("name", ["safetensors", "xuanzang.model", "xuanzang.export"])
def test_what_converts_a_checkpoint_is_named_before_anything_is_done(
    missing: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    missing.add(name)
    (tmp_path / "checkpoint").mkdir()
    assert pull_command(["pull", str(tmp_path / "checkpoint"), f"--repository={tmp_path}"]) == 1
    assert capsys.readouterr().err.endswith("-m pip install -c constraints.txt -e model -e 'export[checkpoints]'\n")
