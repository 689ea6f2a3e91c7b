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
    """Return whether the console has nothing but the answers that were errors; they are taken out."""
    others = [each for each in faults if "Failed to load resource" not in each]
    faults.clear()
    return others == []


def test_a_server_that_is_away_is_asked_again_until_it_answers(page: Any, faults: list[str]) -> None:
    refuse(page, "**/v1/models", 503, times=1)
    page.reload()
    expect(page.locator("#failure")).to_contain_text("The server is busy.")
    expect(page.locator("#failure")).to_be_hidden(timeout=15_000)
    assert translated(page, SENTENCE)
    assert only_refusals(faults)


def test_a_server_behind_the_gateway_that_does_not_answer_is_told_at_once(page: Any, faults: list[str]) -> None:
    refuse(page, "**/health", 503, times=1)
    page.route("**/v1/models", lambda route: None)
    page.reload()
    expect(page.locator("#reason")).to_have_text("The translation server does not answer.")
    page.unroute("**/v1/models")
    page.reload()
    page.wait_for_selector("#target-language option", state="attached")
    refuse(page, "**/health", 503, times=1)
    page.route("**/v1/translate/stream", lambda route: None)
    page.fill("#source", SENTENCE)
    expect(page.locator("#reason")).to_have_text("The translation server does not answer.")
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
    assert page.locator("#verdict .level").count() == 0
    assert only_refusals(faults)


def test_while_the_server_is_away_no_earlier_translation_is_shown_as_that_of_the_text(
    page: Any, faults: list[str]
) -> None:
    translated(page, SENTENCE)
    expect(page.locator("#copy")).to_be_visible()
    page.route("**/v1/translate/stream", lambda route: route.abort())
    page.fill("#source", "我有一只猫。")
    expect(page.locator("#reason")).to_have_text("The server cannot be reached.")
    expect(page.locator("#target")).to_have_class("target stale")
    for withheld in ("#copy", "#verdict", "#hint"):
        expect(page.locator(withheld)).not_to_be_visible()
    page.unroute("**/v1/translate/stream")
    # By itself.
    expect(page.locator("#target")).to_have_text("I have a cat.", use_inner_text=False)
    expect(page.locator("#failure")).to_be_hidden()
    expect(page.locator("#copy")).to_be_visible()
    assert only_refusals(faults)


def test_one_may_try_again_at_once(page: Any, faults: list[str]) -> None:
    page.route("**/v1/translate/stream", lambda route: route.fulfill(status=400, json={"detail": "no"}), times=1)
    page.fill("#source", "我有一只猫。")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#target")).to_have_text("I have a cat.", use_inner_text=False)
    assert only_refusals(faults)


def test_a_stream_that_breaks_off_is_a_failure(page: Any) -> None:
    part = 'event: part\ndata: {"text_delta": "I ha"}\n\n'
    page.route(
        "**/v1/translate/stream",
        lambda route: route.fulfill(status=200, body=part, content_type="text/event-stream"),
        times=1,
    )
    page.fill("#source", "我有一只猫。")
    expect(page.locator("#reason")).to_have_text("The server cannot be reached.")
    expect(page.locator("#target")).to_have_text("I have a cat.", use_inner_text=False)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ({"locale": "en-US"}, "French is not offered here. Available: English and Chinese."),
        ({"locale": "zh-CN"}, "这里不提供法语，只提供英语和中文。"),
    ],
    indirect=["look"],
)
def test_a_language_that_is_not_offered_is_named(page: Any, said: str, faults: list[str]) -> None:
    page.fill("#source", "Bonjour, je suis un développeur à Paris.")
    expect(page.locator("#reason")).to_have_text(said)
    expect(page.locator("#again")).not_to_be_visible()
    expect(page.locator("#copy")).not_to_be_visible()
    page.fill("#source", SENTENCE)
    page.wait_for_selector(".word")
    expect(page.locator("#failure")).to_be_hidden()
    assert only_refusals(faults)


def test_what_takes_long_is_said(page: Any) -> None:
    page.route("**/v1/translate/stream", lambda route: (page.wait_for_timeout(1500), route.continue_()), times=1)
    page.fill("#source", SENTENCE)
    expect(page.locator("#progress")).to_be_visible()
    page.wait_for_selector(".word")
    expect(page.locator("#progress")).to_be_hidden()
