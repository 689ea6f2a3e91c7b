"""Words: alternatives, translation from a word on, and what belongs together on both sides."""

from __future__ import annotations

from typing import Any

import pytest
from web_page import TWO_SENTENCES, shown, translated, until_text_changes, words

pytestmark = pytest.mark.e2e


def open_word(page: Any, place: int) -> Any:
    page.locator(".word").nth(place).click()
    page.wait_for_selector(".offer")
    return page.locator(".offer")


def test_a_click_on_a_word_offers_others_and_translates_from_there_on(page: Any) -> None:
    before = translated(page, TWO_SENTENCES)
    offers = open_word(page, 3)
    found = offers.locator("b").all_text_contents()
    assert len(found) == 6
    # They cover nothing of the translation.
    below = page.locator("#alternatives").bounding_box()["y"]
    assert all(
        each.bounding_box()["y"] + each.bounding_box()["height"] <= below for each in page.locator(".word").all()
    )
    assert len(set(found)) > 3
    wanted = next(i for i, each in enumerate(found) if each != words(page)[3])
    offers.nth(wanted).click()
    after = until_text_changes(page, before)
    assert after.split()[:3] == before.split()[:3]
    assert words(page)[3] == found[wanted]
    # The other sentence stays as it was.
    assert after.partition(".")[2] == before.partition(".")[2]
    page.click("#undo")
    assert until_text_changes(page, after) == before


def test_words_of_ones_own_are_kept_and_the_rest_follows(page: Any) -> None:
    before = translated(page, "今天天气很好，我们去公园吧。")
    open_word(page, 1)
    page.fill(".own input", "skies are")
    page.click(".own button")
    after = until_text_changes(page, before)
    assert after.startswith(f"{before.split()[0]} skies are ")
    assert page.is_hidden("#alternatives")


def test_words_are_opened_and_exchanged_with_the_keyboard_alone(page: Any) -> None:
    before = translated(page, TWO_SENTENCES)
    page.locator(".word").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == words(page)[3]
    page.keyboard.press("Enter")
    page.wait_for_selector(".offer:focus")
    page.keyboard.press("Escape")
    assert page.is_hidden("#alternatives")
    assert page.evaluate("document.activeElement.textContent") == words(page)[3]
    page.keyboard.press("Enter")
    page.wait_for_selector(".offer:focus")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until_text_changes(page, before)
    assert page.evaluate("document.activeElement.className").startswith("word")


def test_words_of_chinese_are_words_and_no_single_characters(page: Any) -> None:
    translated(page, "He worked in Beijing for five years.")
    assert "北京" in words(page)
    offers = open_word(page, words(page).index("北京"))
    assert all("北京" not in each for each in offers.locator("b").all_text_contents())


def test_a_click_elsewhere_closes_the_alternatives(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    open_word(page, 2)
    page.click("h1")
    assert page.is_hidden("#alternatives")


def test_pointing_at_a_word_marks_its_characters_in_the_source(page: Any) -> None:
    translated(page, "🐱 我有一只猫。")
    page.locator(".word", has_text="cat").hover()
    assert page.locator("mark").all_text_contents() == ["猫"]
    page.hover("h1")
    assert page.locator("mark").count() == 0


# The mirror has each character where the text field has it, in whatever font there is; the caret is before one whose
# first half is pointed at.
PLACE_OF = """character => {
    const texts = document.createTreeWalker(document.querySelector("#mirror"), NodeFilter.SHOW_TEXT);
    while (!texts.nextNode().data.includes(character));
    const range = document.createRange(), from = texts.currentNode.data.indexOf(character);
    range.setStart(texts.currentNode, from);
    range.setEnd(texts.currentNode, from + character.length);
    const { x, y, width, height } = range.getBoundingClientRect();
    return [x + 0.3 * width, y + 0.5 * height];
}"""


def test_pointing_at_the_source_marks_the_words_that_come_from_it(page: Any) -> None:
    translated(page, "我有一只猫。")
    page.mouse.move(*page.evaluate(PLACE_OF, "猫"))
    page.wait_for_selector(".word.marked")
    assert "cat" in page.locator(".word.marked").all_text_contents()


def test_the_cursor_in_the_source_marks_words_too(page: Any) -> None:
    translated(page, "我有一只猫。")
    page.focus("#source")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "have" in page.locator(".word.marked").all_text_contents()


def test_text_is_never_taken_for_markup(page: Any) -> None:
    translated(page, "<img src=x onerror=alert(1)> 我有一只猫。<b>你好</b>")
    assert page.locator("#target img, #target b, #mirror img, #mirror b").count() == 0
    assert "cat" in shown(page)
