"""Names of users in paths lead nowhere else, and files that cannot be read are named in one line, by every command."""

from __future__ import annotations

from pathlib import Path

import pytest
from path_like import path_like, tree

from xuanzang.command import __main__ as program
from xuanzang.command.commands import installed
from xuanzang.command.files import PathName

NAMES = tuple(path_like())
COMMANDS = (
    ("pull", "team/model", "--name=NAME", "--repository=models"),
    ("pull", "team/model", "--revision=NAME", "--repository=models"),
    ("pull", "--repository=models", "--", "NAME"),
    ("push", "models/zh-en/1", "--", "NAME"),
    ("export", "--checkpoint=models/zh-en/1", "--repository=models", "--model=NAME"),
    ("batch", "letter.txt", "output.txt", "--models=models", "--model=NAME"),
)


def test_a_name_that_is_no_single_part_of_a_path_is_refused() -> None:
    for name in ("", "..", "../../..", "a/b", ".hidden", "-x", "A", "a\nb", "x" * 64):
        with pytest.raises(ValueError, match="a name must be 1 to 63 of a-z"):
            PathName(name)


def test_every_name_stays_in_its_folder(tmp_path: Path) -> None:
    fitting = [name for name in NAMES if PathName.fits(name)]
    assert 5 < len(fitting) < len(NAMES) / 4
    for name in fitting:
        path = tmp_path / PathName(name)
        assert (path.resolve().parent, path.name) == (tmp_path.resolve(), name)
        path.touch(exist_ok=False)
    assert {path.name for path in tmp_path.iterdir()} == set(fitting)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with models and a letter; commands must change nothing in it or around it."""
    for folder in ("beside", "home", "home/models", "home/models/zh-en", "home/models/zh-en/1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "letter.txt").write_text("mine\n")
    monkeypatch.chdir(tmp_path / "home")
    # No hub is called: the address is refused after the folders of a pull are made.
    monkeypatch.setenv("HF_ENDPOINT", "nowhere")
    return tmp_path / "home"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_name_leads_a_command_out_of_its_folder(
    command: tuple[str, ...], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, main = tree(home.parent), installed()[command[0]].load()
    # All of them among the commands, each of which reads names in the same way.
    names = NAMES[COMMANDS.index(command) % 4 :: 4]
    for number, name in enumerate(names):
        if command[-1] == "NAME" and Path(name).name and len(name) < 250 and Path(name).is_dir():
            continue  # a checkpoint to import
        try:
            status = main([part.replace("NAME", name) for part in command])
        except SystemExit as ended:
            status = int(ended.code or 0)
        errors = capsys.readouterr().err
        assert status in (1, 2), name
        assert "Traceback" not in errors
        if number % 50 and name != names[-1]:
            continue
        after = {path: kept for path, kept in tree(home.parent).items() if not path.startswith("home/models/.pulling")}
        assert after == before, names[max(0, number - 49) : number + 1]
    locks = list((home / "models" / ".pulling").glob("*"))
    assert all(path.name.startswith(".") and path.name.endswith(".lock") and path.is_file() for path in locks)


CLOSED = "--address=127.0.0.1:1"
READING = (
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
        for command in READING
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
