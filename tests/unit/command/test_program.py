"""The program `xuanzang`: its commands, its messages about missing ones, help and completion."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest
from pydantic import BaseModel, Field
from rooms import ROOMS

from xuanzang.command import __main__ as program
from xuanzang.command.commands import GROUP, KNOWN, distribution_of, installed, script
from xuanzang.command.settings import field_texts, read_flags

ROOT = Path(__file__).parents[3]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = program.main(arguments)
    return status, *capsys.readouterr()


def test_the_list_of_commands_is_what_the_distributions_declare() -> None:
    declared: dict[str, str] = {}
    for room in ROOMS:
        metadata = tomllib.loads((ROOT / room / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        declared |= dict.fromkeys(metadata.get("entry-points", {}).get(GROUP, ()), metadata["name"])
        extras = {f"{metadata['name']}[{extra}]" for extra in metadata.get("optional-dependencies", ())}
        needed = {known.package for known in KNOWN.values() if known.package.startswith(f"{metadata['name']}[")}
        assert needed <= extras
    assert declared == {name: known.package.partition("[")[0] for name, known in KNOWN.items()}


def test_every_command_says_its_version_without_being_imported(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in installed().items():
        distribution = distribution_of(command)
        assert run(capsys, *name.split(), "--version") == (0, f"{distribution} {version(distribution)}\n", "")


@pytest.mark.parametrize("name", KNOWN)
def test_the_help_of_every_command_is_of_one_style(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in installed():
        pytest.skip(f"{KNOWN[name].package} is not installed")
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        program.main([*name.split(), "--help"])
    shown, errors = capsys.readouterr()
    assert (ended.value.code, errors) == (0, "")
    assert shown.startswith(f"usage: xuanzang {name} ")
    assert re.search(r"^  -h, --help +Show this help message and exit$", shown, re.MULTILINE)
    # A description starts with a capital and ends without a stop.
    for text in re.findall(r"^  -.*?  +(\S.*)$", shown, re.MULTILINE):
        assert not text[0].islower(), text


def test_help_lists_what_is_installed_and_names_the_package_of_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "installed", lambda: {"translate": EntryPoint("translate", "a:b", GROUP)})
    status, shown, _ = run(capsys, "--help")
    assert status == 0
    assert re.search(r"^  translate +Translate texts", shown, re.MULTILINE)
    assert "run servers" not in shown
    assert "not installed: prepare, train, " in shown


def test_without_a_command_help_goes_to_standard_error_and_the_status_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    status, shown, errors = run(capsys)
    assert (status, shown) == (2, "")
    assert errors.startswith("usage: xuanzang COMMAND")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --data d", "train is a command of the package xuanzang-model, which is not installed"),
        # It is not one of its first word, which is there.
        (
            "models available a",
            "models available is a command of the package xuanzang-server[hub], which is not installed",
        ),
        ("tranlate", "no command 'tranlate'; did you mean translate?"),
        ("--models=x", "no command '--models=x'"),
        ("xyzzy", "no command 'xyzzy'; `xuanzang --help` lists all"),
    ],
)
def test_a_command_that_is_not_there_is_answered_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.setattr(program, "installed", lambda: {"models": EntryPoint("models", "no.such:main", GROUP)})
    status, shown, errors = run(capsys, *arguments.split())
    assert (status, shown, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_a_package_that_cannot_be_loaded_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint("serve", "xuanzang.no_such_module:main", GROUP)
    monkeypatch.setattr(program, "installed", lambda: {"serve": broken})
    status, _, errors = run(capsys, "serve")
    assert status == 2
    assert errors.startswith("xuanzang serve: error: needs xuanzang-server: No module named")


def test_translating_imports_neither_a_server_nor_a_gateway() -> None:
    code = (
        "import sys\nfrom xuanzang.command.__main__ import main\n"
        "try: main(['translate', '--help'])\nfinally: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = set(done.stdout.split())
    assert "xuanzang.client" in loaded
    assert not loaded & {"xuanzang.server", "xuanzang.gateway", "xuanzang.model", "pydantic", "numpy", "torch"}


def test_completion_names_its_shells(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "completion", "fish") == (2, "", "xuanzang completion: error: name the shell: bash or zsh\n")
    assert run(capsys, "completion", "zsh")[1].startswith("autoload")


@pytest.mark.parametrize("arguments", ["--help", "--version", "translate --help", "serve --help"])
def test_a_closed_output_ends_the_program_silently(arguments: str) -> None:
    line = [sys.executable, "-m", "xuanzang.command", *arguments.split()]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)


NEEDS_BASH = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

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


@NEEDS_BASH
def test_commands_flags_and_files_are_completed(tmp_path: Path) -> None:
    for line, found in zip(OFFERED, completed(tmp_path, *OFFERED), strict=True):
        assert OFFERED[line] in found
        assert line.endswith("/host") or len(found) == 1


@NEEDS_BASH
def test_the_flags_of_settings_are_completed_on_and_off(tmp_path: Path) -> None:
    pytest.importorskip("xuanzang.server")
    assert completed(tmp_path, *OF_SETTINGS) == [[offered] for offered in OF_SETTINGS.values()]


class _Shared(BaseModel):
    port: int = 1
    """Port to listen on.

    Above 1023."""
    silent: bool = False


class _Own(_Shared):
    """Serve something."""

    name: str = Field(default="", description="Name that is shown.")
    """Text that readers of the source see."""
    port: int = 2
    """Another port, 10% off."""


def test_the_docstring_nearest_to_the_model_counts_and_a_description_before_it() -> None:
    assert field_texts(_Own) == {"port": "Another port, 10% off.", "name": "Name that is shown."}
    assert field_texts(_Shared) == {"port": "Port to listen on.\n\nAbove 1023."}


def test_help_shows_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_flags(_Own, ["--help"], program="xuanzang own")
    shown = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "--port N Another port, 10% off (default: 2)" in shown
    assert "--name TEXT Name that is shown" in shown
