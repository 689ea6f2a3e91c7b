from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.client.conftest import Run, Script, offer, refuse_texts

from xuanzang.translation.v1 import status_pb2

ITSELF = "itself: choose another output"


@pytest.fixture(autouse=True)
def offered(script: Script) -> None:
    offer(script)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_several_files_get_names_with_the_target_language(run: Run, tmp_path: Path) -> None:
    files = written(tmp_path / "a.txt", "one\none\n"), written(tmp_path / "b.md", "# two\n")
    code, output, errors = run("documents", "--target", "en", *files)
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        f"{tmp_path}/a.txt -> {tmp_path}/a.en.txt: 2 texts; 0 known, 1 asked (3 characters, 0 sentences), 0 refused",
        f"{tmp_path}/b.md -> {tmp_path}/b.en.md: 1 texts; 0 known, 1 asked (3 characters, 0 sentences), 0 refused",
    ]
    assert (tmp_path / "a.en.txt").read_text() == "ONE\nONE\n"
    assert names(tmp_path) == ["a.en.txt", "a.txt", "b.en.md", "b.md"]


def test_a_file_whose_name_nobody_gave_is_replaced_only_on_demand(run: Run, tmp_path: Path) -> None:
    sources = written(tmp_path / "a.txt", "one\n"), written(tmp_path / "b.txt", "two\n")
    mine = written(tmp_path / "a.en.txt", "mine\n")
    code, output, errors = run("documents", "--target", "en", sources[0])
    assert (code, output, f"{mine} exists: replace it with --overwrite" in errors) == (2, "", True)
    code, output, errors = run("documents", "--target", "en", *sources)
    assert (code, len(output.splitlines()), str(mine) in errors) == (1, 1, True)
    assert (mine.read_text(), names(tmp_path)) == ("mine\n", ["a.en.txt", "a.txt", "b.en.txt", "b.txt"])
    same_name = written(tmp_path / "in" / mine.name, "one\n")
    for arguments in (
        ("-o", mine, sources[0]),
        ("-d", tmp_path, same_name),
        ("--overwrite", "--target=en", sources[0]),
    ):
        mine.write_text("mine\n")
        assert run("documents", *arguments)[0] == 0
        assert mine.read_text() == "ONE\n"


def test_a_folder_and_a_memory_are_used(run: Run, tmp_path: Path) -> None:
    table, again = written(tmp_path / "a.csv", "id,text\n1,one\n"), tmp_path / "again.csv"
    arguments = ("--column", "text", "--memory", tmp_path / "memory", table)
    assert run("documents", "-d", tmp_path / "out", *arguments)[0] == 0
    code, output, _ = run("documents", "-o", again, *arguments)
    assert (code, "1 known, 0 asked" in output) == (0, True)
    assert again.read_text() == (tmp_path / "out" / "a.csv").read_text() == "id,text\n1,ONE\n"


def test_a_refused_text_is_reported_with_its_place(run: Run, script: Script, tmp_path: Path) -> None:
    refuse_texts(script, status_pb2.Status(code=3, message="not two"), "two")
    source = written(tmp_path / "a.txt", "one\ntwo\n")
    code, output, errors = run("documents", "-o", tmp_path / "b.txt", source)
    assert (code, errors) == (1, f"xuanzang: {source}: line 2: not two\n")
    assert output.endswith("1 refused\n")
    assert (tmp_path / "b.txt").read_text() == "ONE\ntwo\n"


def same_file(source: Path, other: str) -> Path:
    """Return another path of a file."""
    path = source.with_name("other.md")
    match other:
        case "link":
            path.symlink_to(source)
        case "hard link":
            path.hardlink_to(source)
        case "link of links":
            path.with_name("between.md").symlink_to(source)
            path.symlink_to("between.md")
        case "way round":
            path = source.parent / ".." / source.parent.name / source.name
        case _:
            path = source
    return path


@pytest.mark.parametrize("other", ["itself", "link", "hard link", "link of links", "way round"])
def test_a_document_is_never_written_over(run: Run, tmp_path: Path, other: str) -> None:
    source, second = written(tmp_path / "a.md", "# one\n"), written(tmp_path / "b.md", "# two\n")
    output = same_file(source, other)
    for arguments in (("-o", output, source), ("-o", source, output)):
        code, _, errors = run("documents", *arguments)
        assert (code, source.read_text(), ITSELF in errors) == (2, "# one\n", True)
    if output.parent == source.parent:
        code, _, errors = run("documents", "-d", source.parent, second, output)
        assert (code, source.read_text(), second.read_text()) == (2, "# one\n", "# two\n")


@pytest.mark.parametrize(("link", "target"), [("a.md", "there"), ("a.md", "missing"), (".a.md.unfinished", "missing")])
def test_a_link_leads_no_output_out_of_its_folder(run: Run, tmp_path: Path, link: str, target: str) -> None:
    source, there = written(tmp_path / "a.md", "# one\n"), written(tmp_path / "there", "other")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / link).symlink_to(tmp_path / target)
    code, _, errors = run("documents", "-d", tmp_path / "out", source)
    assert (code, f"{link} is a link" in errors) == (2, True)
    assert names(tmp_path) == ["a.md", "out", "there"]
    assert there.read_text() == "other"


@pytest.mark.parametrize("kind", ["itself", "input of another", "link in the folder", "written before"])
def test_a_folder_of_outputs_holds_no_input(run: Run, tmp_path: Path, kind: str) -> None:
    first, second = written(tmp_path / "a.md", "# one\n"), written(tmp_path / "in" / "b.md", "# two\n")
    folder = tmp_path / "out" if kind in ("link in the folder", "written before") else tmp_path
    folder.mkdir(exist_ok=True)
    if kind == "input of another":
        first = first.rename(tmp_path / "in" / "a.md")
        (tmp_path / "a.md").symlink_to(second)
    if kind == "link in the folder":
        (folder / "a.md").symlink_to(second)
    if kind == "written before":  # as on file systems where a.md is A.md
        (folder / "a.md").touch()
        (folder / "b.md").symlink_to("a.md")
    code, _, errors = run("documents", "-d", folder, first, second)
    assert (code, ITSELF in errors) == (2, True)
    assert (first.read_text(), second.read_text()) == ("# one\n", "# two\n")
    if kind == "written before":
        assert (folder / "a.md").read_text() == "# ONE\n"


def test_a_memory_and_a_glossary_are_no_outputs(run: Run, tmp_path: Path) -> None:
    source, terms = written(tmp_path / "a.md", "# one\n"), written(tmp_path / "terms.tsv", "one\tONE\n")
    new, memory = tmp_path / "new", tmp_path / "memory"
    code, _, errors = run("documents", "-o", new, "--memory", new, source)
    assert (code, new.exists(), ITSELF in errors) == (2, False, True)
    assert run("documents", "--memory", memory, "-o", tmp_path / "b.md", source)[0] == 0
    for output in (terms, memory):
        before = output.read_bytes()
        assert run("documents", "--memory", memory, "--glossary", terms, "-o", output, source)[0] == 2
        assert output.read_bytes() == before


def test_after_a_failure_the_same_command_goes_on(run: Run, script: Script, tmp_path: Path) -> None:
    whole = script.on_stream
    refuse_texts(script, status_pb2.Status(code=13, message="not two"), "two")
    arguments = ("documents", "-o", tmp_path / "b.txt", written(tmp_path / "a.txt", "one\ntwo\n"))
    code, _, errors = run(*arguments)
    assert (code, errors.startswith("xuanzang: not two")) == (1, True)
    assert names(tmp_path) == [".b.txt.unfinished", "a.txt"]
    script.on_stream = whole
    assert "1 known, 1 asked" in run(*arguments)[1]
    assert names(tmp_path) == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt"], "say where to write"),
        (["-o", "x", "a.txt", "b.txt"], "several files would have the same output"),
        (["-o", "x", "missing.txt"], "No such file"),
        (["-o", ".", "a.txt"], "Is a directory"),
        (["-o", "x", "a.pdf"], "a.pdf: no format has the suffix"),
    ],
)
def test_wrong_arguments_leave_nothing_behind(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    for name in ("a.txt", "b.txt", "a.pdf"):
        written(tmp_path / name, "a")
    files = [each if each.startswith("-") else str(tmp_path / each) for each in arguments]
    code, output, errors = run("documents", *files)
    assert (code, output, message in errors) == (2, "", True)
    assert names(tmp_path) == ["a.pdf", "a.txt", "b.txt"]


def test_one_of_several_files_that_fails_is_named_and_the_others_are_translated(run: Run, tmp_path: Path) -> None:
    contents = {"a.md": "# one\n", "bad.json": "{", "c.srt": "1\n0:0:1,0 --> 0:0:2,0\ntwo\n"}
    files = [written(tmp_path / name, content) for name, content in contents.items()]
    out = tmp_path / "new" / "out"
    code, output, errors = run("documents", "-d", out, *files[:2], tmp_path / "missing.txt", files[2])
    assert (code, len(output.splitlines())) == (1, 2)
    named = [line.partition(": ")[2].partition(":")[0] for line in errors.splitlines()]
    assert named == [str(tmp_path / "bad.json"), "[Errno 2] No such file or directory"]
    assert names(out) == ["a.md", "c.srt"]
    assert (out / "c.srt").read_text().endswith("TWO\n")
