"""The engine over real graphs."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import mmap
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from xuanzang.kernels import Kernels, find_kernels
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.runtime.sessions import Sessions, mappings, release_pages
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.engine.types import DecodingOptions, FinishReason, Hypothesis
from xuanzang.server.metrics import Metrics

BUILT = find_kernels()
needs_kernels = pytest.mark.skipif(not BUILT.library, reason="the kernels are not built")
SOURCES = ("我有一只猫。", "你好", "今天天气很好", "他明天去北京看他的朋友", "谢谢")


@pytest.fixture
def settings(provider: Provider) -> EngineSettings:
    return EngineSettings(provider=provider, workers=2, max_batch_sentences=8)


@pytest.fixture
def directory(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Of a bundle that may be changed, the only one of its repository."""
    [directory] = shutil.copytree(tiny_bundle_repository, tmp_path / "tiny").glob("*/1")
    return Path(directory)


@pytest.fixture
async def engine(tiny_bundle_repository: Path, metrics: Metrics, settings: EngineSettings) -> AsyncIterator[Engine]:
    engine = Engine(tiny_bundle_repository, settings=settings, metrics=metrics)
    await engine.start()
    yield engine
    await engine.join(0)


async def translate(engine: Engine, *texts: str, deadline: float | None = None, **changes: Any) -> list[Hypothesis]:
    model = engine.models[0]
    options: DecodingOptions = dataclasses.replace(model.default_options, **changes)
    answer = await engine.translate(Call(texts=tuple(texts), model=model, options=options), deadline=deadline)
    return [hypothesis for hypotheses in answer for hypothesis in hypotheses]


async def test_a_sentence_gets_the_same_answer_alone_and_among_those_of_other_callers(engine: Engine) -> None:
    alone = [(await translate(engine, source))[0] for source in SOURCES]
    together = await asyncio.gather(
        *(translate(engine, *SOURCES, beam_size=beam_size) for beam_size in (4, 1, 4, 2, 4)),
        translate(engine, "".join(source + "！" for source in SOURCES)),
    )
    for answer in (together[0], together[2], together[4]):
        assert [hypothesis.text for hypothesis in answer] == [hypothesis.text for hypothesis in alone]
        assert [hypothesis.score for hypothesis in answer] == pytest.approx([one.score for one in alone], abs=1e-3)


async def test_the_length_limits_hold_for_every_sentence_of_a_batch(engine: Engine) -> None:
    short, long = await asyncio.gather(
        translate(engine, *SOURCES, max_target_length=1, beam_size=1),
        translate(engine, *SOURCES, min_target_length=6, max_target_length=8),
    )
    assert {(one.token_count, one.finish_reason) for one in short} <= {
        (1, FinishReason.MAX_LENGTH),
        (1, FinishReason.END_OF_SENTENCE),
    }
    assert all(7 <= one.token_count <= 8 for one in long)


async def test_hypotheses_come_best_first(engine: Engine) -> None:
    hypotheses = await translate(engine, SOURCES[0], beam_size=4, num_hypotheses=4)
    scores = [hypothesis.score for hypothesis in hypotheses]
    assert len(hypotheses) == 4
    assert scores == sorted(scores, reverse=True)
    assert all(score <= 0 for score in scores)


async def test_a_deadline_ends_the_work_on_long_texts(engine: Engine, metrics: Metrics) -> None:
    longest = engine.models[0].max_target_length
    texts = ["，".join(SOURCES)] * 300
    with pytest.raises(DeadlineExceededError):
        await translate(engine, *texts, beam_size=16, max_target_length=longest, deadline=time.monotonic() + 0.2)
    assert await engine.join(60)
    labels = {"model": engine.models[0].name, "version": "1"}
    for gauge in ("nmt_requests_running", "nmt_requests_waiting", "nmt_queue_tokens"):
        assert metrics.registry.get_sample_value(gauge, labels) == 0


async def test_a_sample_with_another_translation_refuses_the_bundle(
    directory: Path,
    settings: EngineSettings,
    metrics: Metrics,
    edit_manifest: Callable[..., None],
    list_files: Callable[..., None],
) -> None:
    certificate = json.loads((directory / "certificate.json").read_text())
    certificate["samples"][0]["target_ids"].append(7)
    (directory / "certificate.json").write_text(json.dumps(certificate))
    edit_manifest(directory, lambda manifest: list_files(manifest, directory))
    engine = Engine(directory.parent.parent, settings=settings, metrics=metrics)
    with pytest.raises(BundleError, match="is not that of the certificate"):
        await engine.start()
    assert await engine.join(0)


@pytest.mark.parametrize(
    "decoder", [(b"not a graph", "is not an ONNX graph"), (b"", "cannot be opened")], ids=["text", "empty"]
)
async def test_a_listed_file_that_is_no_graph_refuses_the_bundle(
    decoder: tuple[bytes, str],
    directory: Path,
    settings: EngineSettings,
    metrics: Metrics,
    edit_manifest: Callable[..., None],
    list_files: Callable[..., None],
) -> None:
    content, reason = decoder
    (directory / "decoder.onnx").write_bytes(content)
    edit_manifest(directory, lambda manifest: list_files(manifest, directory))
    engine = Engine(directory.parent.parent, settings=settings, metrics=metrics)
    with pytest.raises(BundleError, match=rf"decoder\.onnx {reason}"):
        await engine.start()
    assert await engine.join(0)


@pytest.mark.parametrize(
    ("wanted", "found", "message", "level", "labels"),
    [
        pytest.param(True, BUILT, "kernels", logging.INFO, (BUILT.isa, ""), marks=needs_kernels),
        (True, Kernels(reason="no_compiler", detail="d"), "no kernels", logging.WARNING, ("none", "no_compiler")),
        (True, Kernels(reason="onnxruntime", detail="d"), "no kernels", logging.WARNING, ("none", "onnxruntime")),
        (False, Kernels(library=Path("x.so"), isa="avx2"), "no kernels", logging.INFO, ("none", "disabled")),
    ],
)
async def test_log_and_build_info_show_the_kernels_or_why_there_are_none(
    tiny_bundle_repository: Path,
    settings: EngineSettings,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    wanted: bool,
    found: Kernels,
    message: str,
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
    assert (record.message, record.levelno) == (message, level)
    facts = {"version": version("xuanzang-server"), "kernels": labels[0], "reason": labels[1]}
    assert metrics.registry.get_sample_value("nmt_build_info", facts) == 1
    assert record.__dict__["isa" if message == "kernels" else "reason"] == (labels[1] or labels[0])


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
