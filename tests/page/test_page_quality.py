"""How far to trust a translation: a verdict for the text, and where it comes from."""

from __future__ import annotations

import re
from typing import Any

import pytest
from page_states import DOUBTFUL, GOOD
from playwright.sync_api import expect
from web_page import SENTENCE, translated

pytestmark = pytest.mark.e2e


def test_a_good_text_is_said_to_be_good_and_nothing_in_it_is_underlined(page: Any) -> None:
    translated(page, GOOD)
    expect(page.locator("#verdict")).to_have_text("Looks right")
    assert page.locator(".sentence.check, .sentence.doubtful").count() == 0


def test_the_verdict_is_that_of_the_least_sentence_which_is_underlined(page: Any) -> None:
    translated(page, DOUBTFUL)
    expect(page.locator(".sentence.doubtful")).to_have_count(1)
    expect(page.locator(".sentence").first).to_have_class("sentence good")
    expect(page.locator("#verdict .level")).to_have_text("Probably wrong where underlined")


def test_another_candidate_has_a_verdict_of_its_own(page: Any) -> None:
    translated(page, GOOD)
    page.locator(".word").nth(7).click()
    page.locator(".offer", has_text=re.compile(r"^\.$")).click()  # The move to Shanghai is left out.
    expect(page.locator("#verdict .level")).not_to_have_text("Looks right")
    page.click("#undo")
    expect(page.locator("#verdict .level")).to_have_text("Looks right")


def test_what_is_suspicious_about_a_translation_is_flagged(page: Any) -> None:
    translated(page, SENTENCE)
    page.fill("#source", "猫狗马羊" * 40)
    page.wait_for_selector("#verdict .flag")
    assert page.get_attribute("#verdict .flag", "title")
    assert page.locator(".level.good").count() == 0


def test_probabilities_and_scores_are_only_told_where_it_is_said_how_it_was_translated(page: Any) -> None:
    translated(page, GOOD)
    page.locator(".word").nth(2).click()
    page.wait_for_selector(".offer")
    assert "%" not in page.inner_text("main")
    assert "score" not in page.inner_text("main")
