from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from xuanzang.client._commands.progress import Progress
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

if TYPE_CHECKING:
    from tests.unit.client.conftest import Script

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def offered(script: Script) -> None:
    languages: Any = {"source_language_codes": ["zh"], "target_language_codes": ["en"]}
    model = pb.Model(name="zh-en", version="1", manifest_sha256="aa", is_default=True, **languages)
    script.models = pb.ListModelsResponse(models=[model])


def test_several_files_get_names_with_the_target_language(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\none\n")
    (tmp_path / "b.md").write_text("# two\n")
    code, output, errors = run("documents", "--target", "en", tmp_path / "a.txt", tmp_path / "b.md")
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        f"{tmp_path}/a.txt -> {tmp_path}/a.en.txt: 2 texts; 0 known, 1 asked (3 characters, 0 sentences), 0 refused",
        f"{tmp_path}/b.md -> {tmp_path}/b.en.md: 1 texts; 0 known, 1 asked (3 characters, 0 sentences), 0 refused",
    ]
    assert (tmp_path / "a.en.txt").read_text() == "ONE\nONE\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.en.txt", "a.txt", "b.en.md", "b.md"]


def test_a_folder_and_a_memory_are_used(run: Run, script: Script, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,one\n")
    (tmp_path / "out").mkdir()
    arguments = ("--column", "text", "--memory", tmp_path / "memory", tmp_path / "a.csv")
    assert run("documents", "-d", tmp_path / "out", *arguments)[0] == 0
    code, output, _ = run("documents", "-o", tmp_path / "again.csv", *arguments)
    assert code == 0
    assert "1 known, 0 asked" in output
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "out" / "a.csv").read_text() == "id,text\n1,ONE\n"


def refuse_two(script: Script, code: int) -> Callable[[Any, Any], Iterator[Any]]:
    answers = script.on_stream

    def stream(requests: Any, context: Any) -> Iterator[Any]:
        for request in requests:
            if request.content == "two":
                error = status_pb2.Status(code=code, message="not two")
                yield pb.StreamTranslateTextResponse(id=request.id, error=error)
            else:
                yield from answers(iter([request]), context)

    return stream


def test_a_refused_text_is_reported_with_its_place(run: Run, script: Script, tmp_path: Path) -> None:
    script.on_stream = refuse_two(script, 3)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    code, output, errors = run("documents", "-o", tmp_path / "b.txt", tmp_path / "a.txt")
    assert (code, errors) == (1, f"xuanzang: {tmp_path}/a.txt: line 2: not two\n")
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
    source = tmp_path / "a.md"
    source.write_text("# one\n")
    output = same_file(source, other)
    (tmp_path / "b.md").write_text("# two\n")
    for arguments in (("-o", output, source), ("-o", source, output)):
        code, _, errors = run("documents", *arguments)
        assert (code, source.read_text()) == (2, "# one\n")
        assert "itself: choose another output" in errors
    if output.parent == source.parent:
        code, _, errors = run("documents", "-d", source.parent, tmp_path / "b.md", output)
        assert (code, source.read_text(), (tmp_path / "b.md").read_text()) == (2, "# one\n", "# two\n")


@pytest.mark.parametrize(("link", "target"), [("a.md", "there"), ("a.md", "missing"), (".a.md.unfinished", "missing")])
def test_a_link_leads_no_output_out_of_its_folder(run: Run, tmp_path: Path, link: str, target: str) -> None:
    (tmp_path / "a.md").write_text("# one\n")
    (tmp_path / "there").write_text("other")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / link).symlink_to(tmp_path / target)
    code, _, errors = run("documents", "-d", tmp_path / "out", tmp_path / "a.md")
    assert code == 2
    assert f"{link} is a link" in errors
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.md", "out", "there"]
    assert (tmp_path / "there").read_text() == "other"


def test_a_new_output_is_no_memory(run: Run, tmp_path: Path) -> None:
    source, output = tmp_path / "a.md", tmp_path / "new"
    source.write_text("# one\n")
    code, _, errors = run("documents", "-o", output, "--memory", output, source)
    assert (code, output.exists()) == (2, False)
    assert "itself: choose another output" in errors


@pytest.mark.parametrize("kind", ["itself", "input of another", "link in the folder", "written before"])
def test_a_folder_of_outputs_holds_no_input(run: Run, tmp_path: Path, kind: str) -> None:
    first, second = tmp_path / "a.md", tmp_path / "in" / "b.md"
    second.parent.mkdir()
    first.write_text("# one\n")
    second.write_text("# two\n")
    folder = tmp_path / "out" if kind in ("link in the folder", "written before") else tmp_path
    folder.mkdir(exist_ok=True)
    if kind == "input of another":
        first = tmp_path / "in" / "a.md"
        first.write_text("# one\n")
        (tmp_path / "a.md").unlink()
        (tmp_path / "a.md").symlink_to(second)
    if kind == "link in the folder":
        (folder / "a.md").symlink_to(second)
    if kind == "written before":  # as on file systems where a.md is A.md
        (folder / "a.md").touch()
        (folder / "b.md").symlink_to("a.md")
    code, _, errors = run("documents", "-d", folder, first, second)
    assert code == 2
    assert "itself: choose another output" in errors
    assert (first.read_text(), second.read_text()) == ("# one\n", "# two\n")
    if kind == "written before":
        assert (folder / "a.md").read_text() == "# ONE\n"


def test_a_memory_and_a_glossary_are_no_outputs(run: Run, tmp_path: Path) -> None:
    source, terms, memory = tmp_path / "a.md", tmp_path / "terms.tsv", tmp_path / "memory"
    source.write_text("# one\n")
    terms.write_text("one\tONE\n")
    assert run("documents", "--memory", memory, "-o", tmp_path / "b.md", source)[0] == 0
    for output in (terms, memory):
        before = output.read_bytes()
        assert run("documents", "--memory", memory, "--glossary", terms, "-o", output, source)[0] == 2
        assert output.read_bytes() == before


def test_after_a_failure_the_same_command_goes_on(run: Run, script: Script, tmp_path: Path) -> None:
    whole = script.on_stream
    script.on_stream = refuse_two(script, 13)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    arguments = ("documents", "-o", tmp_path / "b.txt", tmp_path / "a.txt")
    code, _, errors = run(*arguments)
    assert code == 1
    assert errors.startswith("xuanzang: not two")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.txt.unfinished", "a.txt"]
    script.on_stream = whole
    assert "1 known, 1 asked" in run(*arguments)[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


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
        (tmp_path / name).write_text("a")
    files = [each if each.startswith("-") else str(tmp_path / each) for each in arguments]
    code, output, errors = run("documents", *files)
    assert (code, output) == (2, "")
    assert message in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pdf", "a.txt", "b.txt"]


def test_one_of_several_files_that_fails_is_named_and_the_others_are_translated(run: Run, tmp_path: Path) -> None:
    for name, content in (("a.md", "# one\n"), ("bad.json", "{"), ("c.srt", "1\n0:0:1,0 --> 0:0:2,0\ntwo\n")):
        (tmp_path / name).write_text(content)
    files = [tmp_path / name for name in ("a.md", "bad.json", "missing.txt", "c.srt")]
    code, output, errors = run("documents", "-d", tmp_path / "new" / "out", *files)
    assert code == 1
    assert [line.partition(": ")[2].partition(":")[0] for line in errors.splitlines()] == [
        str(tmp_path / "bad.json"),
        "[Errno 2] No such file or directory",
    ]
    assert len(output.splitlines()) == 2
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == ["a.md", "c.srt"]
    assert (tmp_path / "new" / "out" / "c.srt").read_text().endswith("TWO\n")


def test_progress_counts_texts_up_to_all_of_them() -> None:
    stream = io.StringIO()
    progress = Progress(4, stream, noun="texts")
    progress.reach(0)
    progress.reach(4)
    progress.close()
    assert "4/4 texts" in stream.getvalue()
    assert stream.getvalue().endswith("left\x1b[K\n")
