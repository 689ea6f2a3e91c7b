"""Steps on a device with its own memory: the CPU stands for one, so that copies and functions can be counted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest
from search_options import search_options

from xuanzang.kernels.decode import ONE_STEP
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

OPTIONS = search_options(beam_size=4, num_hypotheses=4, max_target_length=24)


@pytest.fixture(scope="module")
def sessions(open_runtime: Callable[..., Sessions]) -> Sessions:
    return open_runtime("float32", kernels=False)


def staged(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let graphs get all arrays of the host by copies from now on."""
    monkeypatch.setattr(sessions, "_staged_on", "cpu")


def sentences(checkpoint: Checkpoint, pairs: list[tuple[str, str]]) -> list[Sentence]:
    sources = checkpoint.source_tokenizer.encode_all([source for source, _ in pairs[::80]])
    return [Sentence(source_ids=list(ids), options=OPTIONS) for ids in sources]


def translated(sessions: Sessions, some: list[Sentence]) -> list[list[tuple[list[int], float]]]:
    """Decode sentences, the second half of which joins after three steps."""
    found: dict[Sentence, list[TargetHypothesis]] = {}
    decoder, step, half = Decoder(sessions), 0, len(some) // 2
    while len(decoder) or not step:
        if joining := {0: some[:half], 3: some[half:]}.get(step):
            decoder.admit(joining)
        found.update(decoder.step())
        step += 1
    return [[(list(each.target_ids), each.score) for each in found[sentence]] for sentence in some]


def functions_of_steps(sessions: Sessions, some: list[Sentence]) -> list[Counter[str]]:
    """Count the Python functions of each step that no sentence joins or leaves, by name."""
    decoder, found = Decoder(sessions), []
    decoder.admit(some)
    decoder.step()
    while len(decoder) == len(some):
        counts: Counter[str] = Counter()

        def count(frame: FrameType, event: str, _: object, counts: Counter[str] = counts) -> None:
            if event == "call":
                counts[frame.f_code.co_name] += 1

        sys.setprofile(count)
        try:
            decoder.advance(ONE_STEP)
        finally:
            sys.setprofile(None)
        found.append(counts)
    # Sentences leave in the last one.
    return found[:-1]


def test_a_device_gets_its_inputs_by_one_copy_a_step_and_finds_the_same(
    sessions: Sessions, checkpoint: Checkpoint, toy_pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = sentences(checkpoint, toy_pairs)
    expected = translated(sessions, some)
    in_place = functions_of_steps(sessions, some)
    staged(sessions, monkeypatch)
    assert translated(sessions, some) == expected
    copied = functions_of_steps(sessions, some)
    assert len(copied) == len(in_place) > 0
    for one, other in zip(copied, in_place, strict=True):
        assert one["update_inplace"] == 1
        assert one["bind_cpu_input"] == 0
        # `copy` and `update_inplace`; binding each array took two functions for each of sixteen.
        assert one.total() == other.total() + 2
