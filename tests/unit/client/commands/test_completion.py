"""Completion of the command line, asked of a real bash."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def script() -> str:
    command = [sys.executable, "-m", "xuanzang.client", "--completion"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def completed(script: str, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("xuanzang", *words))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _xuanzang; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script + ask], check=True, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tr"], ["translate", "translate-documents"]),
        (["translate", "--glossary-n"], ["--glossary-name"]),
        (["glossaries", "cr"], ["create"]),
        (["glossaries", "create", "--rep"], ["--replace"]),
        (["models", "--js"], ["--json"]),
        (["--ver"], ["--version"]),
    ],
)
def test_commands_and_options_are_completed(script: str, words: list[str], offered: list[str]) -> None:
    assert completed(script, *words) == offered


def test_other_words_are_completed_as_files(script: str) -> None:
    assert "/etc/hosts" in completed(script, "translate", "-f", "/etc/host")
