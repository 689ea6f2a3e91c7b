"""What explanations cost an engine that is not asked for any: counted, not timed."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.explanation.explainer import AttentionChoice, Explainer
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.metrics import Metrics
from xuanzang.translation.v1 import explanation_pb2 as pb

TEXTS = ["我有三只猫。", "老师有十只马。", "我们有七只羊和六只牛。"]


async def profiled(models: Path, *, explained: bool) -> Counter[str]:
    """Return the calls of functions of an engine that translates, and explains a text or not, by place."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            code = frame.f_code
            calls["/".join(Path(code.co_filename).parts[-2:]) + ":" + code.co_name] += 1

    engine = Engine(
        models, settings=EngineSettings.model_validate({"workers": 1}), metrics=Metrics(CollectorRegistry())
    )
    explainer = Explainer(engine, ExplanationLimits())
    # Of threads that begin from now on: the workers, and those that explain.
    threading.setprofile(count)
    try:
        await engine.start()
        model = engine.models[0]
        options = replace(model.default_options, beam_size=4)
        for text in TEXTS:
            await engine.translate(Call(texts=(text,), model=model, options=options))
        if explained:
            choice = AttentionChoice(kinds=tuple(pb.AttentionKind.values()[1:]), heads=True)
            detailed = replace(options, token_details=True)
            await explainer.explain(Call(texts=(TEXTS[0],), model=model, options=detailed), choice)
    finally:
        threading.setprofile(None)
        explainer.release()
        await engine.join(10)
    return calls


def of_explanations(calls: Counter[str]) -> Counter[str]:
    """Return the calls that only an explanation needs."""
    parts = ("explanation/", "search_recorder.py:", "attention_graphs.py:", "beam_search.py:_record")
    return Counter({place: number for place, number in calls.items() if place.startswith(parts) or parts[1] in place})


@pytest.mark.parametrize("explained", [False, True])
async def test_an_engine_that_explains_nothing_calls_nothing_of_explanations(
    tiny_bundle_repository: Path, explained: bool
) -> None:
    calls = await profiled(tiny_bundle_repository, explained=explained)
    joined = calls["decoding/beam_search.py:join"]
    assert joined >= len(TEXTS)
    # Asked when a sentence joins or leaves the batch, not at each step.
    assert calls["decoding/beam_search.py:_find_recorded"] <= 2 * joined
    assert bool(of_explanations(calls)) is explained, of_explanations(calls)
