"""The folder of an unfinished pull: it is deleted only if a pull made it, and no link leads out of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from path_like import tree

from xuanzang.command.files import PathName
from xuanzang.hub.unfinished import UnfinishedPull
from xuanzang.server.published import HubError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a folder of models, with a letter beside it."""
    (tmp_path / "elsewhere" / "zh-en").mkdir(parents=True)
    (tmp_path / "elsewhere" / "zh-en" / "letter").write_text("mine")
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_a_pull_leaves_nothing_but_its_lock(repository: Path) -> None:
    unfinished = UnfinishedPull(repository, PathName("zh-en"))
    with unfinished.claimed(print):
        (unfinished.emptied("work/scratch") / "file").touch()
        assert not list(unfinished.emptied("work/scratch").iterdir())
        assert not unfinished.cleared("work/scratch").exists()
        unfinished.remove()
    assert tree(repository) == {".pulling": None, ".pulling/.zh-en.lock": b""}


@pytest.mark.parametrize("place", [".pulling", ".pulling/zh-en"])
def test_no_link_leads_a_pull_elsewhere(repository: Path, place: str) -> None:
    link = repository / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(repository.parent / "elsewhere" / ("zh-en" if place.endswith("zh-en") else ""))
    unfinished = UnfinishedPull(repository, PathName("zh-en"))
    for call in (unfinished.claimed(print).__enter__, unfinished.remove, lambda: unfinished.emptied("work")):
        with pytest.raises(HubError, match="is a link"):
            call()
    assert tree(repository.parent / "elsewhere") == {"zh-en": None, "zh-en/letter": b"mine"}


def test_a_lock_that_is_a_link_is_not_followed(repository: Path) -> None:
    (repository / ".pulling").mkdir()
    (repository / ".pulling" / ".zh-en.lock").symlink_to(repository.parent / "elsewhere" / "zh-en" / "letter")
    with pytest.raises(OSError, match=r"\.zh-en\.lock"):
        UnfinishedPull(repository, PathName("zh-en")).claimed(print).__enter__()
    assert (repository.parent / "elsewhere" / "zh-en" / "letter").read_text() == "mine"


def test_a_folder_of_somebody_else_is_left_alone(repository: Path) -> None:
    mine = repository / ".pulling" / "zh-en"
    mine.mkdir(parents=True)
    (mine / "letter").write_text("mine")
    with (
        pytest.raises(HubError, match="was not made by xuanzang pull"),
        UnfinishedPull(repository, PathName("zh-en")).claimed(print),
    ):
        pass
    assert (mine / "letter").read_text() == "mine"


def test_a_link_inside_is_removed_and_not_followed(repository: Path) -> None:
    unfinished = UnfinishedPull(repository, PathName("zh-en"))
    with unfinished.claimed(print):
        unfinished.emptied("work")
        (unfinished.folder / "work" / "files").symlink_to(repository.parent / "elsewhere")
        unfinished.emptied("work/files")
        (unfinished.folder / "link").symlink_to(repository.parent / "elsewhere")
        unfinished.remove()
    assert (repository.parent / "elsewhere" / "zh-en" / "letter").read_text() == "mine"
