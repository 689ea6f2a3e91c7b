from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rooms import ROOMS

ROOT = Path(__file__).parents[2]


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def asked_for(room: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / room / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # onnxruntime for GPUs is the same module as the one for CPUs: no environment has both.
    extras = [lines for extra, lines in project.get("optional-dependencies", {}).items() if extra != "gpu"]
    lines = [line for lines in (project.get("dependencies", ()), *extras) for line in lines]
    return [Requirement(line) for line in lines if not line.startswith("xuanzang")]


def tools() -> list[Requirement]:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    return [Requirement(line) for group in groups.values() for line in group if isinstance(line, str)]


def unpinned(requirements: list[Requirement]) -> list[str]:
    pins = constraints()
    return [
        str(each)
        for each in requirements
        if (name := canonicalize_name(each.name)) not in pins
        or not each.specifier.contains(str(pins[name].specifier).removeprefix("=="))
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_every_dependency_of_a_room_is_pinned_to_a_version_it_allows(room: str) -> None:
    assert unpinned(asked_for(room)) == []


def test_every_tool_is_pinned_to_a_version_that_is_allowed() -> None:
    assert unpinned(tools()) == []


def test_every_pin_names_exactly_one_version() -> None:
    loose = [str(pin) for pin in constraints().values() if [each.operator for each in pin.specifier] != ["=="]]
    assert loose == []
