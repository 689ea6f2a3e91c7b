"""The glossary: terms that are kept, brought in and taken out as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from web_page import translated

pytestmark = pytest.mark.e2e

TSV = "﻿猫\tkitten\r\n狗\tpuppy\r\nno tab\r\n\r\n".encode()


def opened(page: Any) -> Any:
    page.click("#open-glossary")
    return page.locator("#glossary")


def test_terms_are_kept_and_it_is_said_what_became_of_them(page: Any) -> None:
    before = translated(page, "我有一只猫。")
    dialog = opened(page)
    dialog.get_by_label("Term").first.fill("猫")
    dialog.get_by_label("Translation").first.fill("kitten")
    page.keyboard.press("Tab")
    expect(page.locator("#target")).to_contain_text("kitten")
    expect(dialog.locator(".honoured")).to_have_text("猫 → kitten · kept")
    expect(page.locator("#terms-count")).to_have_text("1")
    dialog.get_by_role("button", name="Remove").click()
    expect(page.locator("#target")).to_have_text(before)
    with page.expect_request("**/v1/translate/stream") as asked:
        dialog.get_by_label("numbers").check()
    assert asked.value.post_data_json["protected_patterns"] == ["number"]
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_terms_come_from_a_file_and_go_into_one(page: Any) -> None:
    dialog = opened(page)
    dialog.locator("input[type=file]").set_input_files(
        [{"name": "terms.tsv", "mimeType": "text/tab-separated-values", "buffer": TSV}]
    )
    expect(dialog).to_contain_text("Terms imported: 2.")
    expect(dialog).to_contain_text("skipped: 3.")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export TSV").click()
    assert download.value.suggested_filename == "glossary.tsv"
    assert Path(download.value.path()).read_text(encoding="utf-8") == "猫\tkitten\n狗\tpuppy\n"


def test_terms_are_there_when_the_page_is_opened_again(page: Any) -> None:
    dialog = opened(page)
    dialog.get_by_label("Term").first.fill("猫")
    dialog.get_by_label("Translation").first.fill("kitten")
    page.keyboard.press("Tab")
    page.reload()
    page.wait_for_selector("#target-language option", state="attached")
    translated(page, "我有一只猫。")
    expect(page.locator("#target")).to_contain_text("kitten")


def test_terms_that_cannot_be_read_are_forgotten(page: Any) -> None:
    page.evaluate("localStorage.setItem('xuanzang-terms', '{no')")
    page.reload()
    page.wait_for_selector("#target-language option", state="attached")
    translated(page, "我有一只猫。")
    assert page.is_hidden("#terms-count")


def test_a_term_that_is_missing_is_named_below_the_translation(page: Any) -> None:
    hypothesis: dict[str, Any] = {
        "text": "I have a cat.",
        "finish_reason": "end_of_sentence",
        "tokens": [],
        "quality": None,
    }
    match = {"source": "猫", "target": "kitten", "outcome": "no_room"}
    answer = {"text": "I have a cat.", "hypotheses": [hypothesis], "glossary_matches": [match], "source_language": "zh"}
    body = f"event: translation\ndata: {json.dumps(answer | {'detection_confidence': 1})}\n\n"
    page.route(
        "**/v1/translate/stream", lambda route: route.fulfill(status=200, body=body, content_type="text/event-stream")
    )
    page.fill("#source", "我有一只猫。")
    expect(page.locator("#verdict .flag")).to_have_text("“kitten” is missing")
