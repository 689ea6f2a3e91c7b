"""Files that cannot be read are named in one line by every command that takes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.command import __main__ as program

CLOSED = "--address=127.0.0.1:1"
COMMANDS = (
    "keys revoke --keys-file FILE id",
    f"translate {CLOSED} --glossary FILE text",
    f"translate {CLOSED} -f FILE",
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


def wrong_file(folder: Path, kind: str) -> Path:
    """Return a path that is not a text file."""
    path = folder / ("x" * 300 if kind == "long" else f"{kind}.md")
    if kind == "folder":
        path.mkdir()
    if kind == "bytes":
        path.write_bytes(b"\xff\xff\n")
    return path


# The lines of a file of texts are refused one by one.
@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (command, kind)
        for command in COMMANDS
        for kind in ("folder", "missing", "bytes", "long")
        if kind != "bytes" or " -f " not in command
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, pairs = wrong_file(tmp_path, kind), tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n", encoding="utf-8")
    places = {"FILE": str(wrong), "OUTPUT": str(tmp_path / "output"), "PAIRS": str(pairs)}
    status = ended_with([places.get(word, word) for word in command.split()])
    shown, errors = capsys.readouterr()
    assert (status in (1, 2, 3), shown) == (True, "")
    assert wrong.name[:200] in errors.splitlines()[-1]


def test_what_must_be_given_is_named_without_what_was(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xuanzang.export")
    assert ended_with(["export", "--repository", "bundles"]) == 2
    errors = capsys.readouterr().err
    assert "--model: must be given\n" in errors
    assert "bundles" not in errors
