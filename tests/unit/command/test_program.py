"""The program `xuanzang`: its commands, and its messages about missing ones."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest
from rooms import ROOMS

from xuanzang.command import __main__ as program
from xuanzang.command.commands import GROUP, KNOWN, distribution_of, installed

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
