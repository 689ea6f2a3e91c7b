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


def test_progress_counts_texts_up_to_all_of_them() -> None:
    stream = io.StringIO()
    progress = Progress(4, stream, noun="texts")
    progress.reach(0)
    progress.reach(4)
    progress.close()
    assert "4/4 texts" in stream.getvalue()
    assert stream.getvalue().endswith("left\x1b[K\n")
