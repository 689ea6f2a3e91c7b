"""The engine over real graphs."""

from __future__ import annotations

import json
import logging
import mmap
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from xuanzang.kernels import Kernels, find_kernels
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.engine import Engine
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


def resident_kilobytes(path: Path) -> int:
    _, _, mapping = Path("/proc/self/smaps").read_text(encoding="utf-8").partition(str(path))
    return int(mapping.partition("Rss:")[2].split()[0])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "weights.bin"
    path.write_bytes(bytes(range(256)) * (PAGES * mmap.PAGESIZE // 256))
    return path


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def test_pages_of_a_mapped_file_leave_the_process_and_come_back(file: Path) -> None:
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


def test_a_file_that_is_not_mapped_has_nothing_to_return(file: Path) -> None:
    assert release_pages(file) == 0


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
