"""Layout rules of the distributions that share the namespace `xuanzang`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rooms import PACKAGES, ROOMS

ROOT = Path(__file__).parents[2]


def modules(room: str) -> Any:
    return sorted(path for path in (ROOT / room / "src").rglob("*.py") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("room", ROOMS)
def test_no_distribution_owns_the_namespace(room: str) -> None:
    # One such file hides every other room from an installation that has both.
    shared = [ROOT / room / "src" / "xuanzang" / folder / "__init__.py" for folder in (".", *PACKAGES["proto"])]
    assert [path for path in shared if path.exists()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_lies_in_the_folder_of_its_room(room: str) -> None:
    assert {path.relative_to(ROOT / room / "src").parts[:2] for path in modules(room)} == {
        ("xuanzang", folder) for folder in PACKAGES[room]
    }


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_ships_its_types(room: str) -> None:
    packages = {path.parent for path in modules(room) if path.name == "__init__.py"} or {
        path.parent for path in modules(room)
    }
    top = {package for package in packages if package.parent not in packages}
    assert top
    assert [package for package in top if not (package / "py.typed").exists()] == []
