"""The unpacked model of languages, kept in a folder."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

import pytest

from xuanzang.server import whole_files
from xuanzang.server.engine import language_detector
from xuanzang.text.language_detection import installed_libraries, is_installed

if is_installed():
    from xuanzang.text import language_model
    from xuanzang.text.language_model import Rank

pytestmark = pytest.mark.skipif(not is_installed(), reason="needs the extra `detection`")


@pytest.fixture(scope="module")
def unpacked() -> bytes:
    return language_model.unpacked()


@pytest.fixture(autouse=True)
def unpacked_once(unpacked: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpack the model, which takes seconds, once for all tests."""
    monkeypatch.setattr(language_model, "unpacked", lambda: unpacked)


def keep(folder: Path) -> None:
    language_detector.kept_model(folder).close()


def rank_in(folder: Path) -> Rank:
    libraries = installed_libraries(partial(language_detector.kept_model, folder))
    assert libraries
    return libraries.read_rank()


def test_the_model_is_unpacked_once_for_all_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path / "cache")
    monkeypatch.setattr(language_model, "unpacked", _fails)
    keep(tmp_path / "cache")


@pytest.mark.parametrize("fault", ["cut", "changed", "writable by others", "pipe", "link"])
def test_a_kept_model_without_trust_and_what_is_no_file_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    keep(cache)
    [path] = cache.iterdir()
    before = path.read_bytes()
    if fault == "cut":
        path.write_bytes(before[: len(before) // 2])
    elif fault == "changed":
        path.write_bytes(before[:-100] + bytes(100))
    elif fault == "writable by others":
        path.chmod(0o666)
    else:
        path.rename(elsewhere)
        # Nobody would ever write into the pipe.
        os.mkfifo(path, 0o600) if fault == "pipe" else path.symlink_to(elsewhere)
    # What is replaced in its place keeps its owner, who may be why it is refused.
    given = list[int]()
    monkeypatch.setattr(os, "fchown", lambda _, owner, __: given.append(owner))
    keep(cache)
    assert (path.is_symlink(), path.read_bytes(), path.stat().st_mode & 0o777) == (False, before, 0o600)
    assert given == []


def test_nothing_is_kept_where_other_machines_may_remove_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_detector, "is_remote", lambda _: True)
    keep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_written_and_not_trusted_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(whole_files, "is_private", lambda _: False)
    assert dict(rank_in(tmp_path)("Guten Morgen", frozenset(("de", "fr"))))["de"] > 0.5
    assert caplog.messages == ["model of languages not kept"]


def test_a_model_of_another_server_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpacked: bytes
) -> None:
    written = list[int]()

    def overtaken() -> bytes:
        with monkeypatch.context() as other:
            other.setattr(language_model, "unpacked", lambda: unpacked)
            keep(tmp_path)
        written.extend(path.stat().st_ino for path in tmp_path.iterdir())
        return unpacked

    monkeypatch.setattr(language_model, "unpacked", overtaken)
    keep(tmp_path)
    assert [path.stat().st_ino for path in tmp_path.iterdir()] == written


def test_models_of_other_versions_are_removed_and_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(language_model, "_LAYOUT", b"of another version")
        keep(tmp_path)
    of_library, other = tmp_path / f"languages-{'0' * 64}-{'1' * 64}.npy", tmp_path / "languages-mine.npy"
    for path in (of_library, other):
        path.write_bytes(b"")
    before = set(tmp_path.iterdir())
    keep(tmp_path)
    assert before & set(tmp_path.iterdir()) == {other}


def test_the_model_opens_where_it_cannot_be_kept(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    assert dict(rank_in(taken)("Guten Morgen", frozenset(("de", "fr"))))["de"] > 0.5


def _fails() -> bytes:
    raise AssertionError("the model was unpacked")
