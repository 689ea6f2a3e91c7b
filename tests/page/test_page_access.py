"""For everyone: accessibility, keyboard, small screens, dark and light, two languages, and nobody else's code."""

from __future__ import annotations

import importlib.resources
from typing import Any

import pytest
from web_page import TWO_SENTENCES, open_tab, translated

pytestmark = pytest.mark.e2e

TABS = ("hypotheses", "attention", "tree", "glossary", "provenance", "documents")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
LOOKS: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {**PHONE, "color_scheme": "light", "locale": "zh-CN"},
    {**PHONE, "color_scheme": "dark"},
]
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


@pytest.mark.parametrize("look", LOOKS, indirect=True, ids=["light", "dark", "phone-zh", "phone-dark"])
def test_axe_finds_nothing_on_any_tab_in_any_look(page: Any) -> None:
    assert violations(page) == []
    translated(page, TWO_SENTENCES)
    for name in TABS:
        open_tab(page, name)
        assert violations(page) == [], name
    page.locator(".word").nth(2).click()
    page.wait_for_selector(".offer")
    assert violations(page) == []


@pytest.mark.parametrize("look", [PHONE], indirect=True)
def test_nothing_is_wider_than_a_small_screen(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    for name in TABS:
        open_tab(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
    page.locator(".word").nth(5).click()
    page.wait_for_selector(".offer")
    box = page.locator("#alternatives").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360


def test_everything_is_reached_with_the_tabulator_and_seen_when_it_is(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    page.click("h1")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or reached[-1] in ("source", ""), reached[-1]
    expected = ["language", "theme", "source-language", "target-language", "model", "source", "clear"]
    assert [each for each in reached if each in expected][: len(expected)] == expected
    assert {"copy", "tab-hypotheses", "hypotheses"} <= set(reached)
    assert sum(each.startswith("word") for each in reached[:15]) == 1


def test_tabs_are_walked_with_arrow_keys(page: Any) -> None:
    page.focus("#tab-hypotheses")
    page.keyboard.press("End")
    assert page.get_attribute("#tab-documents", "aria-selected") == "true"
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
    assert page.get_attribute("#source", "placeholder").startswith("输入")
    translated(page, TWO_SENTENCES)
    page.select_option("#language", "en")
    assert page.text_content("#tab-glossary") == "Glossary"
    assert page.text_content("#copy") == "Copy"
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
