"""Completion of the command line, asked of a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def script() -> str:
    command = [sys.executable, "-m", "xuanzang.command", "completion", "bash"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def completed(script: str, folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    program = folder / "xuanzang"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m xuanzang.command "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    line = " ".join(f"'{word}'" for word in ("xuanzang", *words))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _xuanzang; printf "%s\\n" "${{COMPREPLY[@]}}"'
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script + ask], check=True, capture_output=True, text=True, env=environment)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["docu"], ["documents"]),
        (["--ver"], ["--version"]),
        (["translate", "--glossary-n"], ["--glossary-name"]),
        (["translate", "--num"], ["--num-hypotheses"]),
        (["glossaries", "cr"], ["create"]),
        (["glossaries", "create", "--rep"], ["--replace"]),
        (["models", "--js"], ["--json"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_commands_and_flags_are_completed(script: str, tmp_path: Path, words: list[str], offered: list[str]) -> None:
    assert completed(script, tmp_path, *words) == offered


def test_the_flags_of_settings_are_completed_on_and_off(script: str, tmp_path: Path) -> None:
    pytest.importorskip("xuanzang.server")
    assert completed(script, tmp_path, "serve", "--kern") == ["--kernels"]
    assert completed(script, tmp_path, "serve", "--no-kern") == ["--no-kernels"]


def test_other_words_are_completed_as_files(script: str, tmp_path: Path) -> None:
    assert "/etc/hosts" in completed(script, tmp_path, "translate", "-f", "/etc/host")
