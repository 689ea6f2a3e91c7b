"""Which files of a bundle are opened, and how much of them is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xuanzang.server.bundles.errors import MAX_REASON_CHARACTERS, MAX_REASONS, BundleError
from xuanzang.server.bundles.files import changed_files, read_limited
from xuanzang.server.bundles.repository import find_bundles, load_bundle

SPECIAL: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link out of the repository": lambda path: path.symlink_to("/etc/passwd"),
}


def reasons(directory: Path) -> str:
    with pytest.raises(BundleError) as refusal:
        load_bundle(directory)
    return "\n".join(refusal.value.reasons)


@pytest.mark.parametrize("name", ["manifest.json", "weights.bin", "shared.spm"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_only_regular_files_of_the_repository_are_opened(directory: Path, name: str, kind: str) -> None:
    (directory / name).unlink()
    SPECIAL[kind](directory / name)
    assert name in reasons(directory)


def test_the_files_of_a_volume_of_kubernetes_are_links_within_it(directory: Path) -> None:
    (directory / "..2026_01_01").mkdir()
    for path in [path for path in directory.iterdir() if path.is_file()]:
        path.rename(directory / "..2026_01_01" / path.name)
        path.symlink_to(Path("..data") / path.name)
    (directory / "..data").symlink_to("..2026_01_01")
    assert load_bundle(directory).directory == directory


def test_files_may_be_links_to_other_folders_of_the_repository(repository: Path, directory: Path) -> None:
    (repository / ".store").mkdir()
    shutil.move(directory / "weights.bin", repository / ".store" / "blob")
    (directory / "weights.bin").symlink_to("../../.store/blob")
    assert [name for name, _ in load_bundle(directory).file_states if name == "weights.bin"]


def test_a_model_or_a_version_may_be_a_link_to_a_folder_anywhere(repository: Path, tmp_path: Path) -> None:
    for name in ("small", "small/1"):
        moved = tmp_path / f"elsewhere-{name.count('/')}" / name
        moved.parent.mkdir(parents=True)
        shutil.move((repository / name).resolve(), moved)
        (repository / name).symlink_to(moved)
        [directory] = find_bundles(repository)
        assert load_bundle(directory).manifest.model == "small"


@pytest.mark.parametrize("name", ["small/2", "other"])
def test_a_folder_that_is_a_link_to_nowhere_is_refused_alone(repository: Path, directory: Path, name: str) -> None:
    (repository / name).symlink_to("nowhere")
    broken = repository / name
    assert set(find_bundles(repository)) == {directory, broken}
    assert "manifest.json is missing" in reasons(broken)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
@pytest.mark.parametrize("name", ["manifest.json", "weights.bin", "", ".."])
def test_what_may_not_be_read_is_refused_alone(repository: Path, directory: Path, name: str) -> None:
    shutil.copytree(repository / "small", repository / "other")
    locked = Path(os.path.normpath(repository / "other" / "1" / name))
    locked.chmod(0)
    try:
        assert directory in find_bundles(repository)
        [broken] = [path for path in find_bundles(repository) if path != directory]
        assert "Permission denied" in reasons(broken)
    finally:
        locked.chmod(0o755)


def test_a_file_larger_than_its_limit_is_not_read(directory: Path) -> None:
    os.truncate(directory / "MODEL_CARD.md", 1 << 40)
    with pytest.raises(BundleError, match="has more than 1024 bytes"):
        read_limited(directory, "MODEL_CARD.md", 1024)


def test_a_folder_of_many_files_is_refused_in_few_words(directory: Path) -> None:
    for number in range(1500):
        (directory / f"{number}").touch()
    assert reasons(directory) == "the folder has more than 1000 entries"


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "cut": lambda path: os.truncate(path, 1),
    "replaced": lambda path: (
        path.with_suffix(".old").write_bytes(path.read_bytes()) and path.with_suffix(".old").rename(path)
    ),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_after_its_digest_was_computed_is_named(directory: Path, change: str) -> None:
    states = load_bundle(directory).file_states
    assert not list(changed_files(directory, states))
    CHANGES[change](directory / "weights.bin")
    [reason] = changed_files(directory, states)
    assert reason.startswith("weights.bin ")


def test_reasons_are_short_few_and_printable() -> None:
    error = BundleError(Path("small/1"), ["a\x1b[31m\n\ud800", "x" * 10_000, *"abc" * 10])
    assert error.reasons[0] == "a\\x1b[31m\\n\\ud800"
    assert len(error.reasons[1]) < MAX_REASON_CHARACTERS + 10
    assert error.reasons[MAX_REASONS:] == ("and 12 more",)
