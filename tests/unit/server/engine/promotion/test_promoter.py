from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import ModelNotFoundError, ModelStateError, NotJudgedError
from xuanzang.server.engine.models.folder import FolderWatch
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion import promoter
from xuanzang.server.engine.promotion.gate import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_PAIRS,
    Evaluation,
    Judge,
    read_golden_set,
)
from xuanzang.server.metrics import Metrics

Script = Any
Start = Any


def live_version(engine: Engine) -> int:
    return engine.router.resolve(model="small", source_language="", target_language="").model.version


def promotions(metrics: Metrics) -> dict[str, float]:
    return {result: series.value for result, series in metrics.server.promotions.items() if series.value}


async def until_live(engine: Engine, version: int) -> None:
    while live_version(engine) != version:  # noqa: ASYNC110 - the catalog has no event
        await asyncio.sleep(0)


async def until_judged(engine: Engine, version: int) -> None:
    while not engine.promoter.refusals("small", version):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)


async def test_a_version_that_translates_as_well_goes_live(start: Start, metrics: Metrics) -> None:
    async with start() as engine:
        assert live_version(engine) == 1
        evaluation = await engine.promoter.promote("small", 2)
        assert live_version(engine) == 2
        assert evaluation.reasons == ()
        assert evaluation.sentences == 9
        assert {check.name: check.measured for check in evaluation.checks} == {
            "certified_chrf_loss": 0.5,
            "golden_set_chrf": 100,
            "agreement_chrf": 100,
            "agreement_exact_match": 1,
            "agreement_length_change": 0,
        }
        assert promotions(metrics) == {"promoted": 1}


async def test_a_worse_version_is_refused_with_both_numbers(start: Start, script: Script, metrics: Metrics) -> None:
    script.worse_versions = (2,)
    async with start(gate_min_exact_match=0.9) as engine:
        with pytest.raises(ModelStateError) as refusal:
            await engine.promoter.promote("small", 2)
        assert re.fullmatch(
            r"small/2 may not go live: golden_set_chrf is .* minimum is 99.*agreement_chrf is .* minimum is 50.*"
            r"agreement_exact_match is 0.* minimum is 0\.9.*",
            str(refusal.value),
        )
        assert live_version(engine) == 1
        assert engine.promoter.refusals("small", 2)[0].startswith("golden_set_chrf")
        assert promotions(metrics) == {"refused": 1}


async def test_the_gate_counts_in_no_metric_of_requests(start: Start, metrics: Metrics) -> None:
    async with start() as engine:
        await engine.promoter.evaluate("small", 2)
        sample = metrics.registry.get_sample_value
        for version in ("1", "2"):
            labels = {"model": "small", "version": version}
            assert sample("nmt_sentences_total", labels) == 9
            assert sample("nmt_request_duration_seconds_count", labels) == 0
            assert sample("nmt_answer_duration_seconds_count", {**labels, "length": "short"}) == 0
            assert sample("nmt_requests_total", {**labels, "finish_reason": "eos"}) == 0
            assert sample("nmt_requests_running", labels) == sample("nmt_requests_waiting", labels) == 0


async def test_a_certificate_of_great_loss_or_nothing_is_refused(start: Start, repository: Path, relist: Any) -> None:
    path = repository / "small" / "1" / "certificate.json"
    stated = json.loads(path.read_text())
    async with start() as engine:
        for quality, agreement, reason in (
            ((), {"chrf": 98.5}, "it was exported without pairs"),
            ((50, 45), {}, "certified_chrf_loss is 5, the maximum is 1"),
            ((math.inf, 45), {}, "certificate.json states no quality"),
            ((), {}, "certificate.json states no quality"),
        ):
            folder = repository / "small" / "2"
            scores = {f"{kind}_float32": {"chrf": chrf} for kind, chrf in zip(("torch", "onnx"), quality, strict=False)}
            certificate = json.dumps(stated | {"quality": scores, "agreement": agreement})
            (folder / "certificate.json").write_text(certificate)
            relist(folder)
            await engine.live.load("small", 2)
            with pytest.raises(ModelStateError, match=reason):
                await engine.promoter.promote("small", 2)
        (folder / "certificate.json").write_text(json.dumps(stated))
        with pytest.raises(ModelStateError, match=r"certificate\.json was changed after the bundle was loaded"):
            await engine.promoter.promote("small", 2)


async def test_a_version_goes_live_in_spite_of_the_gate_by_force_and_the_reason_is_logged(
    start: Start, script: Script, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    script.worse_versions = (2,)
    async with start() as engine:
        await engine.promoter.force("small", 2, reason="the golden set is wrong")
        assert (live_version(engine), promotions(metrics)) == (2, {"forced": 1})
        [line] = [record for record in caplog.records if record.message == "version is live"]
        assert vars(line)["reason"] == "the golden set is wrong"


async def test_a_rollback_goes_back_from_a_version_that_went_live_by_itself(start: Start, add_version: Any) -> None:
    async with start(promotion="direct") as engine:
        assert live_version(engine) == 2
        add_version(3)
        await engine.live.load("small", 3)
        assert live_version(engine) == 3
        await engine.promoter.roll_back("small")
        assert live_version(engine) == 2
        # The next one is a new start.
        add_version(4)
        await engine.live.load("small", 4)
        assert live_version(engine) == 4


async def test_a_pin_keeps_every_other_version_from_going_live(start: Start) -> None:
    async with start() as engine:
        await engine.promoter.promote("small", 2)
        await engine.promoter.pin("small", 2)
        forced, back = engine.promoter.force("small", 1, reason="x"), engine.promoter.roll_back("small")
        for change in (forced, back, engine.promoter.promote("small", 1)):
            with pytest.raises(ModelStateError, match="small/2 is pinned"):
                await change
        # Nor is one gone back to that was unloaded.
        await engine.promoter.pin("small", None)
        await engine.live.unload("small", 1)
        with pytest.raises(ModelStateError, match="or it is loaded no more"):
            await engine.promoter.roll_back("small")


async def test_what_cannot_be_promoted_is_told(start: Start, golden_sets: Path, add_version: Any) -> None:
    async with start() as engine:
        with pytest.raises(ModelStateError, match="small/1 is live already"):
            await engine.promoter.promote("small", 1)
        with pytest.raises(ModelNotFoundError, match="small/3 is not loaded"):
            await engine.promoter.promote("small", 3)
        with pytest.raises(ModelNotFoundError, match="no version of other is loaded"):
            await engine.promoter.roll_back("other")
        add_version(4, source_language_codes=["en"])
        await engine.live.load("small", 4)
        with pytest.raises(ModelStateError, match="source_languages lack zh, which the live version has"):
            await engine.promoter.promote("small", 4)
        (golden_sets / "small.tsv").write_text("x" * 2000 + "\tx\n")
        with pytest.raises(ModelStateError, match=r"the golden set cannot be translated: contents\[0\]"):
            await engine.promoter.promote("small", 2)
        (golden_sets / "small.tsv").unlink()
        with pytest.raises(ModelStateError, match=r"small\.tsv is missing"):
            await engine.promoter.promote("small", 2)
        assert engine.promoter.refusals("small", 2) == ("the golden set cannot be used: small.tsv is missing",)


async def test_a_version_that_changes_while_it_is_judged_does_not_go_live(start: Start, script: Script) -> None:
    async with start() as engine:
        script.allow(0)
        promoting = asyncio.create_task(engine.promoter.promote("small", 2))
        await script.until(lambda script: script.blocked)
        await engine.promoter.force("small", 2, reason="no time")
        await engine.promoter.roll_back("small")
        await engine.promoter.force("small", 2, reason="no time")
        script.allow(math.inf)
        with pytest.raises(ModelStateError, match="small has changed while small/2 was judged"):
            await promoting


async def test_a_gate_for_which_callers_leave_no_time_refuses(start: Start, script: Script) -> None:
    async with start(gate_timeout_seconds=0.01) as engine:
        script.allow(0)
        with pytest.raises(NotJudgedError, match="callers left no time to translate the golden set within --gate-tim"):
            await engine.promoter.promote("small", 2)


async def test_a_version_without_its_time_is_judged_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promoter, "_AGAIN_SECONDS", 0.0)
    evaluate, judged = Judge.evaluate, list[int]()

    async def hurried(judge: Judge, candidate: LoadedModel, live: LoadedModel) -> Evaluation:
        judged.append(candidate.version)
        if len(judged) == 1:
            raise NotJudgedError("callers left no time")
        return await evaluate(judge, candidate, live)

    monkeypatch.setattr(Judge, "evaluate", hurried)
    async with start(promotion="gate") as engine:
        await until_live(engine, 2)
    assert judged == [2, 2]


async def test_new_versions_pass_the_gate(start: Start, script: Script, add_version: Any, repository: Path) -> None:
    script.worse_versions = (3,)
    async with start(promotion="gate") as engine:
        await until_live(engine, 2)
        watch = FolderWatch(repository)
        add_version(3)
        for _ in range(2):
            await engine.live.follow(watch)
        await until_judged(engine, 3)
        assert live_version(engine) == 2
        add_version(4)
        await engine.live.load("small", 4)
        await until_live(engine, 4)


async def test_the_highest_version_is_judged_first_and_none_below_the_live_one(start: Start, metrics: Metrics) -> None:
    async with start(2, 3, promotion="gate") as engine:
        await until_live(engine, 3)
        assert promotions(metrics) == {"promoted": 1}
        await engine.promoter.roll_back("small")
        # What was gone back from is not tried again; what was passed over may be, with the next change.
        waiting = engine.promoter._next()
        assert waiting is not None
        assert waiting.version == 2


async def test_a_version_is_live_until_another_is_promoted(start: Start, repository: Path, edit_manifest: Any) -> None:
    async with start() as engine:
        with pytest.raises(ModelStateError, match="small/1 is live; promote another version first"):
            await engine.live.unload("small", 1)
        edit_manifest(repository / "small" / "1", lambda manifest: manifest["generation_defaults"].update(beam_size=3))
        with pytest.raises(ModelStateError, match="it has changed while it is live"):
            await engine.live.load("small", 1)
        shutil.rmtree(repository / "small" / "1")
        await engine.live.reload()
        assert live_version(engine) == 1
        await engine.promoter.promote("small", 2)
        await engine.live.reload()
        assert [model.version for model in engine.models] == [2]
        # The last one may go.
        await engine.live.unload("small", 2)
        assert engine.models == ()


def test_lines_are_sources_and_references(tmp_path: Path) -> None:
    (tmp_path / "zh-en.tsv").write_bytes("我有一只猫。\tI have a cat.\r\n\n你好。\t Hello. \n".encode())
    golden = read_golden_set(tmp_path, "zh-en")
    assert golden.sources == ("我有一只猫。", "你好。")
    assert golden.references == ("I have a cat.", " Hello. ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must have 1 to 1000 lines, has 0"),
        (b"a\tb\n" * (MAX_PAIRS + 1), "must have 1 to 1000 lines, has 1001"),
        (b"a\tb\na\n", "line 2 of the golden set zh-en.tsv must be SOURCE<tab>REFERENCE"),
        (b"a\tb\tc\n", "line 1 of"),
        (b"\n\na\t \n", "line 3 of"),
        (b"a\t" + b"b" * (MAX_CHARACTERS + 1), "each of 1 to 2000 characters"),
        (b"\xff\tb\n", "is not UTF-8"),
        (b"x" * (MAX_BYTES + 1), "has more than 1048576 bytes"),
    ],
)
def test_a_golden_set_that_is_not_valid_is_refused_with_the_limit(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "zh-en.tsv").write_bytes(content)
    with pytest.raises(ModelStateError, match=reason):
        read_golden_set(tmp_path, "zh-en")


def test_what_is_no_golden_set_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "link.tsv").symlink_to("/etc/hostname")
    reasons = {"missing": "is missing", "pipe": "is not a regular file", "link": "outside"}
    for name, reason in reasons.items():
        with pytest.raises(ModelStateError, match=reason):
            read_golden_set(tmp_path, name)
    with pytest.raises(ModelStateError, match="without --golden-sets"):
        read_golden_set(None, "zh-en")
