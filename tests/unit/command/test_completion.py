"""Completion of the command line, asked of a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xuanzang.command.commands import script

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

OFFERED = {
    "docu": "documents",
    "--ver": "--version",
    "translate --glossary-n": "--glossary-name",
    "translate --num": "--num-hypotheses",
    "translate -f /etc/host": "/etc/hosts",
    "glossaries cr": "create",
    "glossaries create --rep": "--replace",
    "models --js": "--json",
    "completion z": "zsh",
}
OF_SETTINGS = {"serve --kern": "--kernels", "serve --no-kern": "--no-kernels"}


def completed(folder: Path, *typed: str) -> list[list[str]]:
    """Return what one bash offers for the last word of each line."""
    program = folder / "xuanzang"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m xuanzang.command "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asked = [
        f'COMP_WORDS=(xuanzang {line}); COMP_CWORD={len(line.split())}; _xuanzang; echo "${{COMPREPLY[*]}}"\n'
        for line in typed
    ]
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    commands = ["bash", "-c", script("bash") + "".join(asked)]
    done = subprocess.run(commands, check=True, capture_output=True, text=True, env=environment)
    return [line.split() for line in done.stdout.splitlines()]


def test_commands_flags_and_files_are_completed(tmp_path: Path) -> None:
    for line, found in zip(OFFERED, completed(tmp_path, *OFFERED), strict=True):
        assert OFFERED[line] in found
        assert line.endswith("/host") or len(found) == 1


def test_the_flags_of_settings_are_completed_on_and_off(tmp_path: Path) -> None:
    pytest.importorskip("xuanzang.server")
    assert completed(tmp_path, *OF_SETTINGS) == [[offered] for offered in OF_SETTINGS.values()]
