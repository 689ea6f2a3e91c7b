"""Every state of the page as a picture to look at, without faults of access, and within the screen."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import pytest
from page_states import STATES

pytestmark = pytest.mark.e2e

PICTURES = Path(__file__).parents[2] / "build" / "pictures"
"""Where the pictures lie; they are ignored by git."""
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark-phone-zh": {**PHONE, "color_scheme": "dark", "locale": "zh-CN"},
}
REFUSED = ("failed", "unserved")
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
}


def violations(page: Any) -> list[str]:
    """Return what axe-core finds; its script goes in by the debugger, which the page's policy does not bind."""
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(axe)
    result = page.evaluate("rules => axe.run(document, rules)", RULES)
    assert len(result["passes"]) > 10
    found = result["violations"]
    return [f"{each['id']}: {node['html'][:200]} {node['failureSummary']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("look", LOOKS.values(), indirect=True, ids=LOOKS)
@pytest.mark.parametrize("state", STATES)
def test_a_state_is_accessible_and_fits_and_can_be_looked_at(
    page: Any, state: str, request: pytest.FixtureRequest, faults: list[str]
) -> None:
    STATES[state](page)
    look = request.node.callspec.id.removeprefix(f"{state}-")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{state}-{look}.png", animations="disabled")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    shown = page.inner_text("body")
    assert "▁" not in shown
    assert "</s>" not in shown
    if state in REFUSED:
        assert [each for each in faults if "Failed to load resource" not in each] == []
        faults.clear()
