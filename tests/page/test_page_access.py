"""For everyone: accessibility, keyboard, small screens, dark and light, two languages, and nobody else's code."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from web_page import TWO_SENTENCES, open_laboratory, translated

pytestmark = pytest.mark.e2e

PANELS = ("hypotheses", "attention", "tree", "origin")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("look", [PHONE], indirect=True)
def test_all_tabs_are_seen_on_a_small_screen(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    open_laboratory(page, "hypotheses")
    for name in PANELS:
        box = page.locator(f"#tab-{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360


@pytest.mark.parametrize("look", [PHONE], indirect=True)
def test_the_tree_reads_from_top_to_bottom(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    open_laboratory(page, "tree")
    boxes = [each.bounding_box() for each in page.locator(".node.best").all()]
    assert [each["y"] for each in boxes] == sorted(each["y"] for each in boxes)
    assert all(each["x"] >= 0 and each["x"] + each["width"] <= 360 for each in boxes)


def test_everything_is_reached_with_the_tabulator_and_seen_when_it_is(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    page.click("h1")
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or reached[-1] in ("source", ""), reached[-1]
    expected = [
        "tab-text",
        "language",
        "theme",
        "source-language",
        "swap",
        "target-language",
        "open-glossary",
        "source",
    ]
    expected += ["clear", "word marked", "copy"]
    assert reached[: len(expected)] == expected


def test_tabs_are_walked_with_arrow_keys(page: Any) -> None:
    page.click("#laboratory summary")
    page.focus("#tab-hypotheses")
    page.keyboard.press("End")
    assert page.get_attribute("#tab-origin", "aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-hypotheses"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    assert page.is_visible("#hypotheses")


def test_a_reader_of_the_screen_hears_the_translation_once(page: Any) -> None:
    whole = translated(page, TWO_SENTENCES)
    assert page.text_content("[role=status]") == whole


@pytest.mark.parametrize("look", [{"locale": "zh-CN"}], indirect=True)
def test_the_interface_speaks_the_browsers_language_and_the_chosen_one(page: Any) -> None:
    assert page.get_attribute("html", "lang") == "zh"
    assert page.get_attribute("#source", "placeholder").startswith("在此输入")
    translated(page, TWO_SENTENCES)
    page.select_option("#language", "en")
    assert page.text_content("#tab-files") == "Files"
    assert page.text_content("#copy-label") == "Copy"
    page.reload()
    page.wait_for_selector("#target-language option", state="attached")
    assert page.get_attribute("html", "lang") == "en"


@pytest.mark.parametrize("look", [{"color_scheme": "light"}], indirect=True)
def test_dark_and_light_follow_the_system_until_one_is_chosen(page: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colour)
    assert dark != light
    page.select_option("#theme", "light")
    assert page.evaluate(colour) == light
    page.reload()
    assert page.evaluate(colour) == light
    page.select_option("#theme", "auto")
    assert page.evaluate(colour) == dark


def test_neither_scripts_nor_styles_nor_calls_of_others_run(page: Any, faults: list[str]) -> None:
    refused = page.evaluate(
        """async () => {
          const blocked = [];
          document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
          const script = document.createElement("script");
          let isTrusted = true;
          try { script.textContent = "window.ran = true"; } catch { isTrusted = false; }
          document.head.append(script);
          const style = document.createElement("style");
          style.textContent = "body { display: none }";
          document.head.append(style);
          await fetch("http://127.0.0.1:1/").catch(() => null);
          await new Promise((done) => setTimeout(done, 200));
          return { blocked, ran: Boolean(window.ran), isTrusted };
        }"""
    )
    assert not refused["ran"]
    assert not refused["isTrusted"]
    assert {"style-src-elem", "connect-src"} <= set(refused["blocked"])
    assert len(faults) >= 3
    faults.clear()


def test_shortcuts_are_shown_and_do_what_they_say(page: Any) -> None:
    whole = translated(page, TWO_SENTENCES)
    page.keyboard.press("Control+/")
    expect(page.locator("#shortcuts dt")).to_have_count(7)
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).not_to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#copy-label")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == whole
    page.keyboard.press("Control+Shift+S")
    assert page.input_value("#source") == whole
    assert page.input_value("#target-language") == "zh"
