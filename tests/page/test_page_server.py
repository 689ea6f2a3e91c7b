"""What the page does when the server is away, asks for a key, or lacks something."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from web_page import SENTENCE, shown, translated

pytestmark = pytest.mark.e2e


def refuse(page: Any, path: str, status: int, times: int) -> None:
    problem = {"detail": "no", "violations": [{"field": "return_quality", "description": "no head"}]}
    kind = "application/problem+json"
    page.route(path, lambda route: route.fulfill(status=status, json=problem, content_type=kind), times=times)


def only_refusals(faults: list[str]) -> bool:
    """Whether the console has nothing but the answers that were errors; they are taken out."""
    others = [each for each in faults if "Failed to load resource" not in each]
    faults.clear()
    return others == []


def test_a_server_that_is_away_is_asked_again_until_it_answers(page: Any, faults: list[str]) -> None:
    refuse(page, "**/v1/models", 503, times=1)
    page.reload()
    expect(page.locator("#failure")).to_contain_text("No answer yet")
    expect(page.locator("#failure")).to_be_hidden(timeout=15_000)
    assert translated(page, SENTENCE)
    assert only_refusals(faults)


def test_a_key_is_asked_for_where_one_is_needed_and_sent_with_every_call(page: Any, faults: list[str]) -> None:
    assert page.is_hidden("#key")
    refuse(page, "**/v1/models", 401, times=1)
    page.reload()
    page.get_by_label("API key").fill("secret")
    with page.expect_request("**/v1/models") as asked:
        page.keyboard.press("Enter")
    assert asked.value.headers["authorization"] == "Bearer secret"
    assert page.evaluate("JSON.stringify({ ...localStorage, ...sessionStorage })").count("secret") == 0
    page.wait_for_selector("#target-language option", state="attached")
    assert only_refusals(faults)


def test_a_model_without_an_estimate_of_quality_translates_all_the_same(page: Any, faults: list[str]) -> None:
    refuse(page, "**/v1/translate/stream", 400, times=1)
    assert translated(page, SENTENCE) == shown(page)
    assert page.is_hidden("#failure")
    assert page.locator("#verdict meter").count() == 0
    assert only_refusals(faults)


def test_a_failure_is_said_and_forgotten_with_the_next_translation(page: Any, faults: list[str]) -> None:
    page.route("**/v1/translate/stream", lambda route: route.abort(), times=1)
    page.fill("#source", SENTENCE)
    expect(page.locator("#failure")).to_be_visible()
    assert translated(page, "我有一只猫。")
    expect(page.locator("#failure")).to_be_hidden()
    assert only_refusals(faults)
