from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.models.folder import FolderWatch, VersionName, version_name

ONE, TWO = VersionName("small", 1), VersionName("small", 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, ONE, "manifest.json", "1")
    return tmp_path


@pytest.fixture
def watch(root: Path) -> FolderWatch:
    return FolderWatch(root)


def write(root: Path, version: VersionName, name: str, content: str) -> None:
    folder = root / version.name / str(version.version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)


def test_what_was_in_the_folder_at_first_is_known(watch: FolderWatch) -> None:
    assert not watch.look()
    assert not watch.look()


def test_a_new_version_is_found_once_it_has_stayed_the_same(watch: FolderWatch, root: Path) -> None:
    write(root, TWO, "manifest.json", "2")
    assert not watch.look()
    write(root, TWO, "weights.bin", "half")
    assert not watch.look()
    assert watch.look() == {TWO: root / "small" / "2"}
    assert not watch.look()


def test_a_file_that_grows_or_is_replaced_is_a_change(watch: FolderWatch, root: Path) -> None:
    write(root, ONE, "manifest.json", "longer")
    watch.look()
    assert watch.look().keys() == {ONE}
    path = root / "small" / "1" / "manifest.json"
    state = path.stat()
    (path.parent / "other").write_text("longer")
    os.utime(path.parent / "other", ns=(state.st_atime_ns, state.st_mtime_ns))
    (path.parent / "other").rename(path)
    watch.look()
    assert watch.look().keys() == {ONE}


def test_a_link_that_is_turned_to_another_file_is_a_change(watch: FolderWatch, root: Path) -> None:
    for folder in ("..data-1", "..data-2"):
        write(root, ONE, folder, "equal")
    path = root / "small" / "1" / "manifest.json"
    path.unlink()
    path.symlink_to("..data-1")
    watch.look()
    assert watch.look()
    path.unlink()
    path.symlink_to("..data-2")
    watch.look()
    assert watch.look().keys() == {ONE}


def test_a_link_that_leads_nowhere_stops_no_look(watch: FolderWatch, root: Path) -> None:
    (root / "small" / "1" / "gone").symlink_to("nowhere")
    watch.look()
    assert watch.look().keys() == {ONE}


def test_a_version_is_gone_after_two_looks_without_it(watch: FolderWatch, root: Path) -> None:
    write(root, TWO, "manifest.json", "2")
    watch.look()
    watch.look()
    shutil.rmtree(root / "small" / "1")
    watch.look()
    assert not watch.is_gone(ONE)
    watch.look()
    assert watch.is_gone(ONE)
    assert not watch.is_gone(TWO)


def test_a_version_that_comes_back_is_found_again(watch: FolderWatch, root: Path) -> None:
    (root / "small" / "1").rename(root / "aside")
    watch.look()
    watch.look()
    (root / "aside").rename(root / "small" / "1")
    watch.look()
    assert watch.look().keys() == {ONE}


def test_of_an_empty_folder_no_version_is_gone(watch: FolderWatch, root: Path) -> None:
    shutil.rmtree(root / "small")
    for _ in range(3):
        watch.look()
        assert not watch.is_gone(ONE)


def test_a_folder_that_cannot_be_listed_is_told(watch: FolderWatch, root: Path) -> None:
    shutil.rmtree(root)
    with pytest.raises(BundleError, match="cannot be listed"):
        watch.look()


def test_the_folder_of_a_model_that_cannot_be_listed_has_version_zero() -> None:
    assert version_name(Path("models/small/12")) == VersionName("small", 12)
    assert version_name(Path("models/small")) == VersionName("small", 0)
