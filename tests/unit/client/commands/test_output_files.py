from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.unit.client.conftest import Run, Script


@pytest.fixture
def zh(tmp_path: Path) -> Path:
    path = tmp_path / "zh.txt"
    path.write_text("a\nb\n")
    return path


@pytest.fixture
def en(tmp_path: Path) -> Path:
    """Return an output file that has content."""
    path = tmp_path / "en.txt"
    path.write_text("old")
    return path


def partials(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}.*.partial"))


def test_a_file_may_be_translated_into_itself(run: Run, zh: Path) -> None:
    assert run("translate", "-f", zh, "-o", zh) == (0, "", "")
    assert zh.read_text() == "A\nB\n"
    assert list(zh.parent.iterdir()) == [zh]


def test_a_file_that_is_not_translated_whole_is_not_replaced_by_its_translation(
    run: Run, zh: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(zh)
    zh.write_bytes(b"a\n\xff\n")
    for output in (zh, link):
        code, _, errors = run("translate", "-f", zh, "-o", output)
        assert (code, zh.read_bytes()) == (2, b"a\n\xff\n")
        assert errors.endswith(f"xuanzang: {zh} is not replaced: 1 of its texts have no translation\n")
        (partial,) = partials(zh)
        assert partial.read_text() == "A\n\n"
        partial.unlink()


def test_the_old_output_stays_when_no_server_can_be_reached(run: Run, zh: Path, en: Path) -> None:
    code, _, errors = run("translate", "--timeout", "0.3", "-f", zh, "-o", en, address="127.0.0.1:1")
    assert (code, en.read_text(), partials(en), "partial" in errors) == (3, "old", [], False)


def test_an_output_cut_short_by_the_server_keeps_the_old_one(run: Run, script: Script, zh: Path, en: Path) -> None:
    answer = script.on_stream

    def fail(requests: Any, context: Any) -> Iterator[Any]:
        yield next(answer(requests, context))
        context.abort(grpc.StatusCode.INTERNAL, "no more")

    script.on_stream = fail
    code, _, errors = run("translate", "-f", zh, "-o", en)
    assert (code, en.read_text()) == (1, "old")
    [partial_file] = partials(en)
    assert partial_file.read_text() == "A\n"
    assert f"incomplete results are in {partial_file}; {en} is as it was" in errors


def test_an_interrupted_run_keeps_the_old_output(start: Callable[..., Any], script: Script, zh: Path, en: Path) -> None:
    answered, ended, answer = threading.Event(), threading.Event(), script.on_stream

    def hang(requests: Any, context: Any) -> Iterator[Any]:
        yield next(answer(requests, context))
        answered.set()
        context.add_callback(ended.set)
        ended.wait(30)

    script.on_stream = hang
    process = start("translate", "-f", zh, "-o", en)
    assert answered.wait(120)
    while not any(each.stat().st_size for each in partials(en)):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert en.read_text() == "old"
    [partial_file] = partials(en)
    assert partial_file.read_text() == "A\n"
    assert str(partial_file) in process.stderr.read().decode()


@pytest.mark.parametrize("mode", ["--json", "--progressive"])
def test_an_output_that_outgrows_the_disk_keeps_the_old_one(run: Run, zh: Path, en: Path, mode: str) -> None:
    zh.write_text((200 * "a" + "\n") * 100)
    code, _, errors = run("translate", mode, "-f", zh, "-o", en, before="ulimit -f 20")
    assert (code, f"File too large: '{en}'" in errors, "Traceback" in errors) == (2, True, False)
    assert en.read_text() == "old"
    assert [each.stat().st_size for each in partials(en)] == [20 * 512]


def test_a_new_output_has_the_usual_permissions_and_a_replaced_one_its_own(run: Run, zh: Path, en: Path) -> None:
    en.chmod(0o604)
    new = en.with_name("new")
    before = os.umask(0o027)
    try:
        assert [run("translate", "-f", zh, "-o", each)[0] for each in (new, en)] == [0, 0]
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (new, en)] == [0o640, 0o604]


def test_the_file_that_a_symbolic_link_points_to_is_replaced(run: Run, zh: Path, en: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = folder / "link"
    link.symlink_to(Path("..") / en.name)
    assert run("translate", "-f", zh, "-o", link)[0] == 0
    assert link.is_symlink()
    assert en.read_text() == "A\nB\n"
    assert list(folder.iterdir()) == [link]


def test_a_device_or_pipe_is_written_directly(run: Run, zh: Path) -> None:
    for device, output in (("/dev/stdout", "A\nB\n"), (os.devnull, "")):
        # On pipes, which only a process of its own has.
        assert run("translate", "-f", zh, "-o", device, before=":") == (0, output, "")


def test_an_output_without_a_folder_is_named_as_it_was_given(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "none" / "en.txt"
    code, _, errors = run("translate", "a", "-o", output)
    assert code == 2
    assert errors.splitlines()[-1].endswith(f"No such file or directory: '{output}'")


@pytest.mark.parametrize("arguments", [("-f", "FILE", "--capsule"), ("--glossary", "FILE", "-o")])
def test_translate_never_writes_over_another_input(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    source, link = tmp_path / "a.txt", tmp_path / "link"
    source.write_text("a\tb\n")
    link.symlink_to(source)
    for output in (source, link):
        code, shown, errors = run("translate", *(source if each == "FILE" else each for each in arguments), output)
        assert (code, shown, source.read_text()) == (2, "", "a\tb\n")
        assert errors == f"xuanzang: {output} is the input {source} itself: choose another output\n"
