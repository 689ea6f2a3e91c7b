"""Glossaries of the server: their files, changes of them, and those that callers store."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.server.engine.errors import GlossaryExistsError, GlossaryStateError, InvalidInputError
from xuanzang.server.engine.glossaries import (
    GlossaryDraft,
    GlossaryError,
    GlossaryFile,
    GlossaryFolder,
    GlossaryStore,
    glossary_file,
    read_glossary,
)
from xuanzang.server.watched_files import reload_changed
from xuanzang.text.terminology.terms import GlossaryEntry

HEAD = "# source_language: zh\n# target_language: en\n# version: 7\n"


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / f"{name}.tsv"
    path.write_text(content, encoding="utf-8")
    return path


def tech(folder: Path, *entries: str) -> Path:
    return write(folder, "tech", HEAD + "".join(f"{entry}\n" for entry in entries or ("源\tspring",)))


def test_a_glossary_has_languages_version_and_entries(tmp_path: Path) -> None:
    glossary = read_glossary(write(tmp_path, "tech", f"{HEAD}\n源\tspring\tsource\n# a remark\n表\ttable\n"))
    assert (glossary.name, glossary.source_language, glossary.target_language) == ("tech", "zh", "en")
    assert (glossary.version, glossary.entry_count) == ("7", 2)
    [(_, _, entry)] = glossary.index.find("源")
    assert entry.targets == ("spring", "source")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("tech", "源\tspring\n", "source_language"),
        ("tech", HEAD + "源\n", "entry 1: must have 1 to 8 elements"),
        ("tech", HEAD + "\tspring\n", "entry 1: must have 1 to 100 characters"),
        ("tech", HEAD + "源\t" + "x" * 201, "entry 1: must have 1 to 200 characters"),
        ("Tech", HEAD, "name"),
    ],
)
def test_a_faulty_file_is_refused_with_the_reason(tmp_path: Path, name: str, content: str, fault: str) -> None:
    with pytest.raises(GlossaryError, match=fault):
        read_glossary(write(tmp_path, name, content))


async def test_changes_of_the_folder_are_taken_over_and_faulty_ones_are_not(tmp_path: Path) -> None:
    absent, folder = GlossaryFolder(tmp_path / "none"), GlossaryFolder(tmp_path)
    await absent.reload()
    assert absent.glossaries == []
    path = tech(tmp_path)
    await folder.reload()
    assert folder.find("tech").entry_count == 1
    tech(tmp_path, "源\tspring", "表\ttable")
    await folder.reload()
    assert folder.find("tech").entry_count == 2
    write(tmp_path, "tech", "nothing")
    await folder.reload()
    assert folder.find("tech").entry_count == 2
    path.unlink()
    await folder.reload()
    assert folder.glossaries == []
    with pytest.raises(InvalidInputError) as error:
        folder.find("tech")
    assert error.value.violations[0].field == "glossary"


async def test_a_link_that_leads_nowhere_costs_no_other_glossary(tmp_path: Path) -> None:
    folder = GlossaryFolder(tmp_path)
    tech(tmp_path)
    (tmp_path / "link.tsv").symlink_to(tmp_path / "nowhere")
    (tmp_path / "endless.tsv").symlink_to(tmp_path / "endless.tsv")
    for _ in range(2):
        await folder.reload()
        assert [each.name for each in folder.glossaries] == ["tech"]


async def test_a_glossary_whose_link_loses_its_file_stays(tmp_path: Path) -> None:
    folder = GlossaryFolder(tmp_path / "glossaries")
    folder.path.mkdir()
    target = write(tmp_path, "target", HEAD + "源\tspring\n")
    (folder.path / "tech.tsv").symlink_to(target)
    await folder.reload()
    target.unlink()
    await folder.reload()
    assert folder.find("tech").entry_count == 1
    (folder.path / "tech.tsv").unlink()
    await folder.reload()
    assert folder.glossaries == []


async def test_a_folder_that_is_locked_loses_no_glossary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = GlossaryFolder(tmp_path)
    tech(tmp_path)
    await folder.reload()

    def fail(_: Path) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", fail)
        await folder.reload()
    assert folder.find("tech").entry_count == 1


@pytest.mark.parametrize(("step", "code"), [("iterdir", errno.EIO), ("open", errno.EMFILE)])
async def test_a_glossary_that_could_not_be_read_is_read_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str, code: int
) -> None:
    counted: list[bool] = []
    folder = GlossaryFolder(tmp_path, count=counted.append)
    assert not folder.have_changed()
    tech(tmp_path)
    assert folder.have_changed()

    def fail(*_: object) -> None:
        raise OSError(code, "a passing fault")

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, fail)
        await reload_changed([folder])
        await reload_changed([folder])
    assert folder.glossaries == []
    if step == "open":
        assert counted == [False, False]
        assert caplog.text.count("glossary refused") == 1
    await reload_changed([folder])
    assert folder.find("tech").entry_count == 1
    assert not folder.have_changed()


async def test_the_event_loop_asks_the_disk_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tech(tmp_path)
    asking = set()
    stat = Path.stat

    def record(path: Path, **options: bool) -> object:
        asking.add(threading.current_thread())
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", record)
    await GlossaryFolder(tmp_path).reload()
    assert asking
    assert threading.main_thread() not in asking


async def test_what_a_killed_writer_leaves_behind_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "..tech.tsv.1a2b3c4d.tmp"
    left.touch()
    await GlossaryFolder(tmp_path).reload()
    assert not left.exists()


async def test_a_named_pipe_is_no_glossary(tmp_path: Path) -> None:
    path = tmp_path / "pipe.tsv"
    os.mkfifo(path)
    reading = asyncio.create_task(asyncio.to_thread(read_glossary, path))
    await asyncio.wait([reading], timeout=30)
    # A thread that waited for a writer would wait for ever.
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    with pytest.raises(GlossaryError, match="not a regular file"):
        await reading


CAT = GlossaryEntry(source="猫", targets=("cat", "tomcat"))
DOG = GlossaryEntry(source="狗", targets=("dog",))


def draft(*entries: GlossaryEntry, **fields: Any) -> GlossaryDraft:
    defaults = {"name": "animals", "source_language": "zh", "target_language": "en", "version": "2"}
    return GlossaryDraft(**{**defaults, **fields}, entries=entries)


def file(*entries: GlossaryEntry, **fields: Any) -> GlossaryFile:
    return glossary_file(draft(*entries, **fields))


@pytest.fixture
def folder(tmp_path: Path) -> GlossaryFolder:
    return GlossaryFolder(tmp_path / "glossaries")


@pytest.fixture
def store(folder: GlossaryFolder) -> GlossaryStore:
    return GlossaryStore(folder)


async def test_a_stored_glossary_is_found_at_once_and_read_again(store: GlossaryStore, folder: GlossaryFolder) -> None:
    stored = await store.create(file(CAT, DOG))
    assert folder.find("animals") is stored
    # A folder that cannot be written is a state of the server.
    with pytest.raises(GlossaryStateError):
        await GlossaryStore(GlossaryFolder(folder.path / "animals.tsv")).create(file(CAT))
    again = GlossaryFolder(folder.path)
    await again.reload()
    read = again.find("animals")
    assert (read.entries, read.version, read.sha256) == ((CAT, DOG), "2", stored.sha256)
    assert [path.name for path in folder.path.iterdir()] == ["animals.tsv"]


async def test_another_one_of_the_name_takes_its_place_only_if_asked(store: GlossaryStore, folder: Any) -> None:
    first = await store.create(file(CAT))
    assert await store.create(file(CAT)) == first
    with pytest.raises(GlossaryExistsError):
        await store.create(file(DOG))
    assert (await store.create(file(DOG), replace=True)).entries == (DOG,)
    # Nor does it take the place of a faulty file of the operator.
    write(folder.path, "other", "no glossary")
    with pytest.raises(GlossaryExistsError):
        await store.create(file(CAT, name="other"))


@pytest.mark.parametrize(
    ("faulty", "field"),
    [
        (draft(CAT, source_language="zh\n# x"), "source_language_code"),
        (draft(CAT, target_language=""), "target_language_code"),
        (draft(CAT, version="a b"), "version"),
        (draft(CAT, GlossaryEntry(source="#1", targets=("a",))), "entries[1].source"),
        (draft(GlossaryEntry(source="a\tb", targets=("a",))), "entries[0].source"),
        (draft(GlossaryEntry(source="a", targets=("b\u2028c",))), "entries[0].targets[0]"),
        (draft(GlossaryEntry(source="a", targets=())), "entries[0].targets"),
        (draft(GlossaryEntry(source="a", targets=("b" * 201,))), "entries[0].targets[0]"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_by_field(faulty: GlossaryDraft, field: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        glossary_file(faulty)
    assert [violation.field for violation in error.value.violations] == [field]


def texts(most: int) -> st.SearchStrategy[str]:
    return st.text(max_size=most).map(str.strip)


entries = st.lists(
    st.builds(GlossaryEntry, source=texts(9), targets=st.lists(texts(9), max_size=3).map(tuple)), max_size=4
)


@settings(max_examples=60)
@given(entries)
def test_what_is_accepted_is_read_as_it_was(tmp_path_factory: Any, given_entries: Sequence[GlossaryEntry]) -> None:
    async def stored() -> Sequence[GlossaryEntry]:
        store = GlossaryStore(GlossaryFolder(tmp_path_factory.mktemp("stored") / "glossaries"))
        try:
            return (await store.create(file(*given_entries))).entries
        except InvalidInputError:
            return given_entries

    assert list(asyncio.run(stored())) == list(given_entries)
