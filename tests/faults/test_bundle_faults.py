"""Damaged bundles beside a good one: each is refused with its reason, and the good one is served.

The number of bundles is an option: pytest tests/faults/test_bundle_faults.py --damaged-bundles 1000
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from subprocess import PIPE

import onnx
import pytest
from damages.content import CONTENT_DAMAGES
from damages.damaged_bundle import Damaged
from damages.files import FILE_DAMAGES
from onnx import TensorProto, helper
from prometheus_client import CollectorRegistry

from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models import trial_loader as program
from xuanzang.server.engine.models.trial_loader import TrialLoader
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.metrics import Metrics

DAMAGES = (*FILE_DAMAGES, *CONTENT_DAMAGES)


def damage(original: Path, directory: Path, number: int) -> tuple[str, str]:
    """Make one damaged bundle.

    Args:
        original: Folder of a sound bundle.
        directory: Folder of the damaged one, to be made; its name is its version.
        number: Number of the damage; the same number gives the same one.

    Returns:
        Name of the damage, and a regular expression of what the reasons of its refusal must name.
    """
    kind = DAMAGES[number % len(DAMAGES)]
    return kind.__name__, kind(Damaged(original, directory, Random(number)))


def _constant(name: str, *values: int) -> onnx.NodeProto:
    tensor = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
    return helper.make_node("Constant", [], [name], value=tensor)


def _overflowing_division() -> list[onnx.NodeProto]:
    """onnxruntime divides the smallest number by -1 as the processor does, which raises SIGFPE."""
    return [
        _constant("smallest", -(1 << 63)),
        _constant("minus_one", -1),
        helper.make_node("Sub", ["source_lengths", "source_lengths"], ["zero"]),
        helper.make_node("Add", ["zero", "smallest"], ["dividend"]),
        helper.make_node("Div", ["dividend", "minus_one"], ["harm"]),
    ]


def _endless_loop() -> list[onnx.NodeProto]:
    def value(name: str, kind: int, shape: list[None]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    go_on = helper.make_node("Identity", ["go_on"], ["goes_on"])
    body = helper.make_graph(
        [go_on, helper.make_node("Sub", ["value", "value"], ["next_value"])],
        "body",
        [
            value("round", TensorProto.INT64, []),
            value("go_on", TensorProto.BOOL, []),
            value("value", TensorProto.INT64, [None]),
        ],
        [value("goes_on", TensorProto.BOOL, []), value("next_value", TensorProto.INT64, [None])],
    )
    always = helper.make_tensor("always", TensorProto.BOOL, [], [True])
    loop = helper.make_node("Loop", ["", "always", "source_lengths"], ["harm"], body=body)
    return [helper.make_node("Constant", [], ["always"], value=always), loop]


def _all_memory() -> list[onnx.NodeProto]:
    return [
        _constant("side", 1 << 20),
        helper.make_node("ReduceMax", ["source_lengths"], ["longest"], keepdims=1),
        helper.make_node("Mul", ["longest", "side"], ["many"]),
        helper.make_node("Mul", ["many", "side"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["harm"], to=TensorProto.INT64),
    ]


HARMS: dict[str, Callable[[], list[onnx.NodeProto]]] = {
    "a crash": _overflowing_division,
    "an endless loop": _endless_loop,
    "all memory": _all_memory,
}


def with_harm(encoder: bytes, harm: str) -> bytes:
    """Add nodes to an encoder that compute from `source_lengths`, and let all others depend on them.

    Args:
        encoder: Graph of a sound bundle.
        harm: One of `HARMS`.

    Returns:
        The graph with the same inputs and outputs.
    """
    model = onnx.ModelProto.FromString(encoder)
    for node in model.graph.node:
        node.input[:] = ["lengths" if name == "source_lengths" else name for name in node.input]
    nodes = [*HARMS[harm](), helper.make_node("Add", ["source_lengths", "harm"], ["lengths"]), *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model.SerializeToString()


SETTINGS = EngineSettings(workers=1, provider="cpu")
OPTIONS = DecodingOptions(
    beam_size=2, num_hypotheses=1, length_penalty=1.0, min_target_length=0, max_target_length=None
)
# A safety net only: a bundle takes some hundredths of a second.
SECONDS_PER_BUNDLE = 60.0


@pytest.fixture
def repository(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Holds model "tiny", version 1; free to be changed."""
    return Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models"))


async def served(repository: Path, trial_loader: TrialLoader | None = None) -> tuple[list[int], str]:
    """Start an engine; return the versions that it serves, and the translation of a sentence by the first."""
    metrics = Metrics(CollectorRegistry())
    engine = Engine(repository, settings=SETTINGS, metrics=metrics, trial_loader=trial_loader)
    try:
        await engine.start()
        [[hypothesis]] = await engine.translate(Call(texts=("我有一只猫。",), model=engine.models[0], options=OPTIONS))
        return [model.version for model in engine.models], hypothesis.text
    finally:
        await engine.join(5)


def refused(caplog: pytest.LogCaptureFixture) -> dict[int, str]:
    """Return the logged reasons by version."""
    records = [record.__dict__ for record in caplog.records if record.message == "bundle refused"]
    return {int(Path(record["bundle"]).name): "\n".join(record["reasons"]) for record in records}


@pytest.mark.parametrize("tried", [True, False], ids=["tried first", "known"])
async def test_every_damaged_bundle_is_refused_and_the_good_one_served(
    repository: Path, caplog: pytest.LogCaptureFixture, pytestconfig: pytest.Config, tried: bool
) -> None:
    count: int = pytestconfig.getoption("--damaged-bundles")
    alone = await served(repository)
    damages = {
        version: damage(repository / "tiny" / "1", repository / "tiny" / str(version), number)
        for number, version in enumerate(range(2, count + 2))
    }
    trial_loader = TrialLoader(SETTINGS, max_seconds_per_bundle=SECONDS_PER_BUNDLE) if tried else None
    beside = await asyncio.wait_for(served(repository, trial_loader), count * SECONDS_PER_BUNDLE)
    assert beside == alone
    found = refused(caplog)
    wrong = {
        version: (kind, words, found.get(version, "served"))
        for version, (kind, words) in damages.items()
        if not re.search(words, found.get(version, ""))
    }
    assert not wrong


def harmful(repository: Path, harm: str) -> Path:
    """Add version 2, which does harm."""
    bundle = Damaged(repository / "tiny" / "1", repository / "tiny" / "2", Random(0))
    bundle.certify("encoder.onnx", with_harm(bundle.read("encoder.onnx"), harm))
    return bundle.directory


@pytest.mark.parametrize(
    "harm", [pytest.param(harm, marks=[pytest.mark.slow] * ("loop" in harm)) for harm in sorted(HARMS)]
)
async def test_a_graph_that_harms_its_process_is_refused_and_the_good_one_served(
    repository: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    alone = await served(repository)
    harmful(repository, harm)
    # An idle machine loads the good bundle in a twentieth of the loop's time.
    seconds = 20.0 if "loop" in harm else SECONDS_PER_BUNDLE
    assert await served(repository, TrialLoader(SETTINGS, max_seconds_per_bundle=seconds)) == alone
    words = {
        "a crash": "ends the process that loads it: SIG",
        "an endless loop": "takes more than 20 seconds",
        "all memory": "certificate.json: .* allocate memory",
    }
    assert re.search(words[harm], refused(caplog)[2])


def test_a_process_that_is_busy_for_ever_ends_with_its_server(repository: Path) -> None:
    directory = harmful(repository, "an endless loop")
    settings = SETTINGS.model_dump(mode="json")
    request = {"settings": settings, "directories": [str(directory)]}
    with subprocess.Popen([sys.executable, "-m", program.__name__], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdin.close()
        assert process.wait() == 1
