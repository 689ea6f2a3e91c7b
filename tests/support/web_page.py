"""Actions of people on the page, for its tests in a browser."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

TWO_SENTENCES = "昨天我和朋友去看了一场电影。今天天气很好，我们去公园吧。"
SENTENCE = "今天天气很好，我们去公园吧。"


def translated(page: Any, source: str) -> str:
    """Write a source text at once and return its translation when it is whole."""
    page.fill("#source", "")
    expect(page.locator("#target")).to_be_empty()
    page.fill("#source", source)
    page.wait_for_selector(".word")
    return shown(page)


def shown(page: Any) -> str:
    """Return the translation that is shown."""
    return str(page.text_content("#target"))


def words(page: Any) -> list[str]:
    """Return its words."""
    return list(page.locator(".word").all_text_contents())


def open_laboratory(page: Any, name: str) -> Any:
    """Show how a text was translated: open one of the panels and return it when it is filled."""
    if page.get_attribute("#laboratory", "open") is None:
        page.click("#laboratory summary")
    page.click(f"#tab-{name}")
    page.wait_for_selector(f"#{name}:not([aria-busy])")
    return page.locator(f"#{name}")


def until_text_changes(page: Any, before: str) -> str:
    """Wait until the translation is another one and return it."""
    expect(page.locator("#target")).not_to_have_text(before, use_inner_text=False)
    return shown(page)
