"""The states of the page that a person meets, each with what brings it about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from playwright.sync_api import expect
from web_page import open_laboratory, translated

GOOD = "他在北京工作了五年，去年搬到了上海。这家餐厅的菜很好吃，价格也不贵。"
DOUBTFUL = "他在北京工作了五年，去年搬到了上海。玄奘用了十七年时间从印度带回了六百多部佛经。"
UNSERVED = "Bonjour, je suis un développeur à Paris."
STREAM = "**/v1/translate/stream"
MODELS = "**/v1/models"


def first(page: Any) -> None:
    """Nothing is written yet."""
    expect(page.locator("#invitation")).to_be_visible()


def loading(page: Any) -> None:
    """The server has not said what it offers."""
    page.route(MODELS, lambda route: None)
    page.reload()
    page.wait_for_selector(".sheet.loading")


def waiting(page: Any) -> None:
    """Nothing is translated yet."""
    page.route(STREAM, lambda route: None)
    page.fill("#source", GOOD)
    expect(page.locator("#skeleton")).to_be_visible()


def stale(page: Any) -> None:
    """The translation is that of an earlier text."""
    translated(page, GOOD)
    page.route(STREAM, lambda route: None)
    page.fill("#source", GOOD + "我有一只猫。")
    expect(page.locator("#target")).to_have_class("target stale")
    expect(page.locator("#progress")).to_be_visible()


def done(page: Any) -> None:
    """A text is translated well."""
    translated(page, GOOD)


def doubtful(page: Any) -> None:
    """One sentence of two is translated badly."""
    translated(page, DOUBTFUL)
    page.wait_for_selector(".sentence.doubtful")


def alternatives(page: Any) -> None:
    """A word is opened."""
    translated(page, GOOD)
    page.locator(".word").nth(2).click()
    page.wait_for_selector(".offer")


def failed(page: Any) -> None:
    """The server cannot be reached."""
    translated(page, GOOD)
    page.route(STREAM, lambda route: route.abort())
    page.fill("#source", "我有一只猫。")
    expect(page.locator("#failure")).to_be_visible()


def unserved(page: Any) -> None:
    """The text is in a language that is not translated."""
    page.fill("#source", UNSERVED)
    expect(page.locator("#failure")).to_be_visible()


def too_long(page: Any) -> None:
    """The text has more characters than the server takes."""
    page.fill("#source", "我有一只猫。" * 3400)
    expect(page.locator("#failure")).to_be_visible()


def glossary(page: Any) -> None:
    """The glossary is open, with a term in use."""
    translated(page, "他在北京工作了五年。")
    page.click("#open-glossary")
    inputs = page.locator(".terms input")
    inputs.nth(0).fill("北京")
    inputs.nth(1).fill("Peking")
    inputs.nth(1).press("Tab")
    expect(page.locator(".matches li")).to_have_count(1)


def files(page: Any) -> None:
    """One file is translated and one refused."""
    page.click("#tab-files")
    content = "# 你好\n\n他在北京工作了五年。\n".encode()
    given = [
        {"name": "北京.md", "mimeType": "text/plain", "buffer": content},
        {"name": "report.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"},
    ]
    page.set_input_files("#files input[type=file]", given)
    page.wait_for_selector(".save")
    page.wait_for_selector(".files .complaint")


def laboratory(name: str) -> Callable[[Any], None]:
    """Return what shows how a text was translated."""

    def opened(page: Any) -> None:
        translated(page, GOOD)
        open_laboratory(page, name)

    return opened


def shortcuts(page: Any) -> None:
    """The keyboard shortcuts are shown."""
    page.keyboard.press("Control+/")
    expect(page.locator("#shortcuts")).to_be_visible()


_SHOWN = (first, loading, waiting, stale, done, doubtful, alternatives, failed, unserved, too_long, glossary, files)
STATES: Mapping[str, Callable[[Any], None]] = MappingProxyType(
    {each.__name__: each for each in (*_SHOWN, shortcuts)}
    | {name: laboratory(name) for name in ("hypotheses", "attention", "tree", "origin")}
)
"""States by name."""
