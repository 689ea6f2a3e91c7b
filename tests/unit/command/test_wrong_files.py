"""Files that cannot be read are named in one line by every command that takes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.command import __main__ as program

CLOSED = "--address=127.0.0.1:1"
COMMANDS = (
    "keys revoke --keys-file FILE id",
    f"translate {CLOSED} --glossary FILE text",
    f"documents {CLOSED} --target en FILE",
    f"glossaries create names FILE --from zh --to en {CLOSED}",
    f"replay {CLOSED} FILE",
    f"loadtest {CLOSED} FILE --rate 1",
    "keys list --keys-file FILE",
    "prepare --recipe FILE",
    "train --recipe FILE",
    "train --data FILE --output OUTPUT",
    "evaluate FILE PAIRS",
    "export --model names --checkpoint FILE --repository OUTPUT",
    "restore FILE OUTPUT",
    "import FILE --output OUTPUT",
    "gateway --tls-certificate FILE --tls-key FILE",
    "gateway --server-tls-ca FILE",
)


def ended_with(arguments: list[str]) -> object:
    """Return the exit status of a command."""
    try:
        return program.main(arguments)
    except SystemExit as ended:
        return ended.code


@pytest.fixture(params=["folder", "missing", "bytes", "long"])
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a path that is not a text file."""
    path = tmp_path / ("x" * 300 if request.param == "long" else f"{request.param}.md")
    if request.param == "folder":
        path.mkdir()
    if request.param == "bytes":
        path.write_bytes(b"\xff\xff\n")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_read_is_named(
    command: str, wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n", encoding="utf-8")
    places = {"FILE": str(wrong), "OUTPUT": str(tmp_path / "output"), "PAIRS": str(pairs)}
    status = ended_with([places.get(word, word) for word in command.split()])
    shown, errors = capsys.readouterr()
    assert (status in (1, 2, 3), shown) == (True, "")
    assert wrong.name[:200] in errors.splitlines()[-1]


@pytest.mark.parametrize("kind", ["folder", "missing", "long"])
def test_a_file_of_texts_that_cannot_be_opened_is_named(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("x" * 300 if kind == "long" else kind)
    if kind == "folder":
        path.mkdir()
    status = ended_with(["translate", CLOSED, "-f", str(path)])
    assert (status, path.name[:200] in capsys.readouterr().err) == (2, True)


def test_what_must_be_given_is_named_without_what_was(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xuanzang.export")
    assert ended_with(["export", "--repository", "bundles"]) == 2
    errors = capsys.readouterr().err
    assert "--model: must be given\n" in errors
    assert "bundles" not in errors
