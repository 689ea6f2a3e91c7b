from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from xuanzang.model.threads import fastest_threads, usable_threads


class Machine:
    """A machine on which a step takes some seconds, by number of threads."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.seconds, self.now, self.steps = seconds, 0.0, 0

    def step(self) -> None:
        self.now += self.seconds[torch.get_num_threads()]
        self.steps += 1

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "fastest"),
    [
        ({1: 1.0, 2: 0.6}, 2),
        ({1: 1.0, 2: 0.95}, 1),  # not worth a second core
        ({1: 1.0, 2: 20.0}, 1),  # two threads wait for each other
        ({1: 1.0, 4: 0.3, 8: 0.5}, 4),
        ({1: 1.0, 4: 0.3, 8: 0.2}, 8),
        ({1: 1.0, 4: 5.0, 8: 0.2}, 8),
        ({1: 1.0}, 1),
    ],
)
def test_the_fastest_number_of_threads_is_set(seconds: dict[int, float], fastest: int) -> None:
    machine = Machine(seconds)
    measured = fastest_threads(machine.step, max(seconds), machine.clock)
    assert measured.threads == fastest == torch.get_num_threads()
    assert measured.seconds == pytest.approx(seconds)


def test_a_hopeless_number_of_threads_is_measured_once() -> None:
    machine = Machine({1: 1.0, 2: 20.0})
    measured = fastest_threads(machine.step, 2, machine.clock)
    assert machine.now == 4 * 1.0 + 2 * 20.0
    assert str(measured) == "a trial step takes 1 s with 1, 20 s with 2"


@pytest.mark.parametrize(
    ("files", "usable"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu.max": "nonsense"}, 8),
    ],
)
def test_a_quota_of_either_version_lowers_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], usable: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)), raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    (tmp_path / "cpu").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content + "\n")
    assert usable_threads(tmp_path) == usable


def test_no_more_threads_are_usable_than_torch_was_allowed(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    assert usable_threads(tmp_path) == 1
