"""Sessions over real graphs, whose packed weights processes share in a file."""

from __future__ import annotations

import json
import logging
import mmap
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from search_options import search_options

from xuanzang.kernels import Kernels, find_kernels
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graphs import attention_decoder, attention_encoder
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.runtime import packed_weights
from xuanzang.server.engine.runtime.sessions import Sessions, mappings, release_pages
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.metrics import Metrics

BUILT = find_kernels()
needs_kernels = pytest.mark.skipif(not BUILT.library, reason="the kernels are not built")


@pytest.fixture
def settings(provider: Provider) -> EngineSettings:
    return EngineSettings(provider=provider, workers=2, max_batch_sentences=8)


@pytest.fixture
def directory(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Of a bundle that may be changed, the only one of its repository."""
    [directory] = shutil.copytree(tiny_bundle_repository, tmp_path / "tiny").glob("*/1")
    return Path(directory)


async def test_a_sample_with_another_translation_refuses_the_bundle(
    directory: Path, settings: EngineSettings, metrics: Metrics, relist: Callable[[Path], None]
) -> None:
    certificate = json.loads((directory / "certificate.json").read_text())
    certificate["samples"][0]["target_ids"].append(7)
    (directory / "certificate.json").write_text(json.dumps(certificate))
    relist(directory)
    engine = Engine(directory.parent.parent, settings=settings, metrics=metrics)
    with pytest.raises(BundleError, match="is not that of the certificate"):
        await engine.start()
    assert await engine.join(0)


@pytest.mark.parametrize(("content", "reason"), [(b"not a graph", "is not an ONNX graph"), (b"", "cannot be opened")])
async def test_a_listed_file_that_is_no_graph_refuses_the_bundle(
    directory: Path,
    settings: EngineSettings,
    metrics: Metrics,
    relist: Callable[[Path], None],
    content: bytes,
    reason: str,
) -> None:
    (directory / "decoder.onnx").write_bytes(content)
    relist(directory)
    engine = Engine(directory.parent.parent, settings=settings, metrics=metrics)
    with pytest.raises(BundleError, match=rf"decoder\.onnx {reason}"):
        await engine.start()
    assert await engine.join(0)


@pytest.mark.parametrize(
    ("wanted", "found", "level", "labels"),
    [
        pytest.param(True, BUILT, logging.INFO, (BUILT.isa, ""), marks=needs_kernels),
        (True, Kernels(reason="no_compiler", detail="d"), logging.WARNING, ("none", "no_compiler")),
        (True, Kernels(reason="onnxruntime", detail="d"), logging.WARNING, ("none", "onnxruntime")),
        (False, Kernels(library=Path("x.so"), isa="avx2"), logging.INFO, ("none", "disabled")),
    ],
)
async def test_log_and_build_info_show_the_kernels_or_why_there_are_none(
    tiny_bundle_repository: Path,
    settings: EngineSettings,
    metrics: Metrics,
    monkeypatch: Any,
    caplog: Any,
    *,
    wanted: bool,
    found: Kernels,
    level: int,
    labels: tuple[str, str],
) -> None:
    monkeypatch.setattr("xuanzang.server.engine.hardware.find_kernels", lambda: found)
    caplog.set_level(logging.INFO)
    cpu = settings.model_copy(update={"provider": "cpu", "kernels": wanted})
    engine = Engine(tiny_bundle_repository, settings=cpu, metrics=metrics)
    await engine.start()
    await engine.join(0)
    [record] = [record for record in caplog.records if record.message.endswith("kernels")]
    isa, reason = labels
    assert (record.message, record.levelno) == ("no kernels" if reason else "kernels", level)
    facts = {"version": version("xuanzang-server"), "kernels": isa, "reason": reason}
    assert metrics.registry.get_sample_value("nmt_build_info", facts) == 1
    assert record.__dict__["reason" if reason else "isa"] == (reason or isa)


PAGES = 64

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "weights.bin"
    path.write_bytes(bytes(range(256)) * (PAGES * mmap.PAGESIZE // 256))
    return path


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def test_pages_of_a_mapped_file_leave_the_process_and_come_back(file: Path) -> None:
    assert release_pages(file) == 0, "it is not mapped"
    with mapped(file) as content:
        before = bytes(content)
        assert resident_kilobytes(file) == len(before) // 1024
        assert release_pages(file) == len(before)
        assert resident_kilobytes(file) == 0
        assert bytes(content) == before


def test_only_mappings_that_have_come_since_give_their_pages_back(file: Path) -> None:
    with mapped(file) as earlier:
        assert len(bytes(earlier)) == PAGES * mmap.PAGESIZE
        others = mappings(file)
        assert release_pages(file, but=others) == 0
        assert resident_kilobytes(file) == len(earlier) // 1024


def test_a_mapping_that_was_written_to_keeps_its_pages(file: Path) -> None:
    with mapped(file) as content:
        content[0] = 77
        assert release_pages(file) == 0
        assert content[0] == 77


def test_graphs_on_the_same_weights_can_be_opened_by_several_threads_at_once(directory: Path) -> None:
    bundle = load_bundle(directory)
    start = threading.Barrier(4)

    def open_often() -> None:
        start.wait()
        for _ in range(15):
            Sessions(bundle, provider="cpu", intra_op_threads=1)

    with ThreadPoolExecutor(4) as threads:
        for opening in [threads.submit(open_often) for _ in range(4)]:
            opening.result()


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    if find_kernels().isa in {"none", "generic"}:
        pytest.skip("needs kernels that multiply by packed weights")
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


def test_weights_stay_in_the_process_where_no_file_can_be_kept(
    bundle: Bundle, expected: list[list[TargetHypothesis]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    assert translations(bundle, opened(bundle, taken)) == expected
    monkeypatch.setattr(packed_weights, "is_remote", lambda _: True)
    assert translations(bundle, opened(bundle, tmp_path)) == expected
    assert list(tmp_path.iterdir()) == [taken]


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
