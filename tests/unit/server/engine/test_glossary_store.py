"""Glossaries that callers store: what is written, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.server.engine.errors import (
    GlossaryExistsError,
    GlossaryStateError,
    InvalidInputError,
)
from xuanzang.server.engine.glossaries import (
    GlossaryDraft,
    GlossaryFile,
    GlossaryFolder,
    GlossaryStore,
    glossary_file,
)
from xuanzang.text.terminology.terms import GlossaryEntry

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


async def test_a_stored_glossary_can_be_named_at_once_and_is_read_again(
    store: GlossaryStore, folder: GlossaryFolder
) -> None:
    stored = await store.create(file(CAT, DOG))
    assert folder.find("animals") is stored
    again = GlossaryFolder(folder.path)
    await again.reload()
    read = again.find("animals")
    assert (read.entries, read.version, read.sha256) == ((CAT, DOG), "2", stored.sha256)
    assert [path.name for path in folder.path.iterdir()] == ["animals.tsv"]


async def test_another_one_of_the_name_takes_its_place_only_if_asked(store: GlossaryStore) -> None:
    first = await store.create(file(CAT))
    assert await store.create(file(CAT)) == first
    with pytest.raises(GlossaryExistsError):
        await store.create(file(DOG))
    assert (await store.create(file(DOG), replace=True)).entries == (DOG,)


async def test_a_faulty_file_of_the_operator_is_not_overwritten(store: GlossaryStore, folder: GlossaryFolder) -> None:
    folder.path.mkdir()
    (folder.path / "animals.tsv").write_text("no glossary", encoding="utf-8")
    with pytest.raises(GlossaryExistsError):
        await store.create(file(CAT))


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


async def test_a_folder_that_cannot_be_written_is_a_state_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "glossaries").write_text("a file", encoding="utf-8")
    with pytest.raises(GlossaryStateError):
        await GlossaryStore(GlossaryFolder(tmp_path / "glossaries")).create(file(CAT))


def texts(most: int) -> st.SearchStrategy[str]:
    return st.text(max_size=most).map(str.strip)


entries = st.lists(
    st.builds(GlossaryEntry, source=texts(9), targets=st.lists(texts(9), max_size=3).map(tuple)), max_size=4
)


@settings(max_examples=150, deadline=None)
@given(entries)
def test_what_is_accepted_is_read_as_it_was_given(
    tmp_path_factory: Any, given_entries: Sequence[GlossaryEntry]
) -> None:
    async def stored() -> Sequence[GlossaryEntry]:
        store = GlossaryStore(GlossaryFolder(tmp_path_factory.mktemp("stored") / "glossaries"))
        try:
            return (await store.create(file(*given_entries))).entries
        except InvalidInputError:
            return given_entries

    assert list(asyncio.run(stored())) == list(given_entries)
