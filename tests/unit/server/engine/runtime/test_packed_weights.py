"""Packed weights in a file that processes share, beside those of one process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from search_options import search_options

from xuanzang.kernels import find_kernels
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.graphs import attention_decoder, attention_encoder
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.runtime import packed_weights
from xuanzang.server.engine.runtime.sessions import Sessions, mappings

pytestmark = pytest.mark.skipif(
    find_kernels().isa in {"none", "generic"}, reason="needs kernels that multiply by packed weights"
)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    models = Path(__file__).parents[5] / "server" / "models" / "en-zh"
    return load_bundle(max(models.iterdir(), key=lambda version: int(version.name)))


@pytest.fixture(scope="module")
def expected(bundle: Bundle) -> list[list[TargetHypothesis]]:
    return translations(bundle, Sessions(bundle, provider="cpu", intra_op_threads=1))


def opened(bundle: Bundle, folder: Path) -> Sessions:
    return Sessions(bundle, provider="cpu", intra_op_threads=1, packed_weights=folder)


def resident_kilobytes(path: Path) -> int:
    """Return how much of a file the process has in memory."""
    lines, is_of_file, total = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines(), False, 0
    for line in lines:
        if " kB" not in line and "VmFlags" not in line and "THPeligible" not in line:
            is_of_file = line.endswith(f" {path}")
        elif is_of_file and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def translations(bundle: Bundle, sessions: Sessions) -> list[list[TargetHypothesis]]:
    decoder = Decoder(sessions)
    options = search_options(num_hypotheses=4, length_penalty=0.6, max_target_length=40)
    sentences = [Sentence(source_ids=list(sample.source_ids), options=options) for sample in bundle.samples]
    decoder.admit(sentences)
    found: dict[Sentence, list[TargetHypothesis]] = {}
    while len(decoder):
        found.update(decoder.step())
    return [found[sentence] for sentence in sentences]


def test_who_writes_and_who_maps_packed_weights_translates_as_without(
    bundle: Bundle, expected: list[list[TargetHypothesis]], tmp_path: Path
) -> None:
    writing = opened(bundle, tmp_path)
    [path] = tmp_path.iterdir()
    written = path.stat()
    mapping = opened(bundle, tmp_path)
    assert (path.stat().st_ino, path.stat().st_mode & 0o777) == (written.st_ino, 0o600)
    assert [translations(bundle, sessions) for sessions in (writing, mapping)] == [expected] * 2
    for sessions in (writing, mapping):
        sessions.release_packed()
    assert resident_kilobytes(path) == 0
    assert translations(bundle, mapping) == expected
    # Each reads all of them there.
    assert resident_kilobytes(path) > 0.9 * written.st_size / 1024


def test_packed_weights_are_unmapped_with_their_graphs(bundle: Bundle, tmp_path: Path) -> None:
    sessions = opened(bundle, tmp_path)
    [path] = tmp_path.iterdir()
    assert mappings(path)
    del sessions
    assert not mappings(path)


@pytest.mark.parametrize("fault", ["cut", "changed", "of another model"])
def test_a_file_with_other_content_is_not_used_and_written_anew_at_the_next_start(
    bundle: Bundle, expected: list[list[TargetHypothesis]], tmp_path: Path, fault: str
) -> None:
    opened(bundle, tmp_path)
    [path] = tmp_path.iterdir()
    before = path.read_bytes()
    middle = len(before) // 2
    faulty = {"cut": before[:middle], "changed": before[:middle] + b"?" + before[middle + 1 :]}
    path.write_bytes(faulty.get(fault, before[::-1]))
    assert translations(bundle, opened(bundle, tmp_path)) == expected
    assert list(tmp_path.iterdir()) == []
    opened(bundle, tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("fault", ["writable by others", "a link"])
def test_a_file_that_others_may_change_is_replaced(bundle: Bundle, tmp_path: Path, fault: str) -> None:
    opened(bundle, tmp_path / "cache")
    [path] = (tmp_path / "cache").iterdir()
    elsewhere = tmp_path / "elsewhere"
    if fault == "a link":
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    else:
        path.chmod(0o666)
        os.link(path, elsewhere)
    opened(bundle, tmp_path / "cache")
    assert (path.is_symlink(), path.stat().st_ino == elsewhere.stat().st_ino) == (False, False)
    assert path.read_bytes() == elsewhere.read_bytes()


def test_weights_stay_in_the_process_where_no_file_can_be_written(
    bundle: Bundle, expected: list[list[TargetHypothesis]], tmp_path: Path
) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    assert translations(bundle, opened(bundle, taken)) == expected


def test_weights_stay_in_the_process_where_other_machines_may_remove_the_file(
    bundle: Bundle, expected: list[list[TargetHypothesis]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_weights, "is_remote", lambda _: True)
    assert translations(bundle, opened(bundle, tmp_path)) == expected
    assert list(tmp_path.iterdir()) == []


def test_other_graphs_of_a_model_read_its_packed_weights_in_any_order(bundle: Bundle, tmp_path: Path) -> None:
    sessions, manifest = opened(bundle, tmp_path), bundle.manifest
    [path] = tmp_path.iterdir()
    written, packed = path.stat(), len(mappings(path))
    # A decoder first, where translations have the encoder first.
    decoder = attention_decoder(bundle.directory, manifest.decoder.file, manifest.dimensions.num_decoder_layers)
    encoder = attention_encoder(bundle.directory, manifest.encoder.file, manifest.dimensions.num_encoder_layers)
    others = [
        sessions.open_other(graph.file, each.content)
        for graph, each in ((manifest.decoder, decoder), (manifest.encoder, encoder))
    ]
    assert len(mappings(path)) == 2 * packed
    assert (path.stat().st_ino, path.stat().st_size) == (written.st_ino, written.st_size)
    del others
    assert len(mappings(path)) == packed
    path.unlink()
    assert sessions.open_other(manifest.decoder.file, decoder.content)
    assert list(tmp_path.iterdir()) == []


def test_files_used_least_recently_beyond_the_limit_are_removed_when_one_is_written(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(bundle, tmp_path)
    [path] = tmp_path.iterdir()
    size, now = path.stat().st_size, time.time()
    for limit, kept in ((size + 25, {1, 2}), (1, set[int]())):
        path.unlink()
        monkeypatch.setattr(packed_weights, "_MAX_BYTES", limit)
        for minutes in (3, 1, 2):
            other = tmp_path / f"weights-{minutes}.packed"
            other.write_bytes(bytes(10))
            os.utime(other, (now - 60 * minutes,) * 2)
        opened(bundle, tmp_path)
        assert set(tmp_path.iterdir()) == {path, *(tmp_path / f"weights-{minutes}.packed" for minutes in kept)}


def test_files_that_no_server_has_opened_for_long_are_removed(bundle: Bundle, tmp_path: Path) -> None:
    old, recent, other = (tmp_path / name for name in ("weights-1.packed", "weights-2.packed", "languages-1.npy"))
    for path in (old, recent, other):
        path.write_bytes(b"")
    # What cannot be removed keeps nothing else.
    immovable = [tmp_path / f"weights-folder-{number}.packed" for number in range(3)]
    for path in immovable:
        path.mkdir()
    for path in (old, other, *immovable):
        os.utime(path, (0, 0))
    opened(bundle, tmp_path)
    assert (old.exists(), recent.exists(), other.exists()) == (False, True, True)
    [path] = (each for each in tmp_path.glob("weights-*") if each.is_file() and each.stat().st_size)
    os.utime(path, (0, 0))
    opened(bundle, tmp_path)
    assert path.stat().st_mtime > 0


def test_graphs_without_packed_weights_leave_no_file(tiny_bundle_repository: Path, tmp_path: Path) -> None:
    opened(load_bundle(tiny_bundle_repository / "tiny" / "1"), tmp_path)
    assert list(tmp_path.iterdir()) == []
