"""How a text was translated: candidates, attention, the search tree, timing and origin."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect
from web_page import SENTENCE, TWO_SENTENCES, open_laboratory, shown, translated, until_text_changes

pytestmark = pytest.mark.e2e


def together(pieces: list[str]) -> str:
    """Return what pieces of a drawing say, without spaces."""
    return re.sub(r"[ ‑␣]", "", "".join(pieces))


def test_it_is_closed_at_first_and_asks_for_nothing_until_it_is_opened(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    translated(page, SENTENCE)
    assert not page.is_visible("#panels")
    assert [each for each in asked if not each.endswith("/v1/translate/stream")] == []
    open_laboratory(page, "hypotheses")
    page.reload()
    page.wait_for_selector("#panels")
    assert page.is_visible("#panels")


def test_the_best_hypotheses_are_listed_and_one_can_be_used(page: Any) -> None:
    before = translated(page, SENTENCE)
    panel = open_laboratory(page, "hypotheses")
    expect(panel.locator("li")).to_have_count(4)
    assert panel.locator("li .text").first.text_content() == before
    scores = [float(each) for each in re.findall(r"score (-[\d.]+)", panel.text_content())]
    assert scores == sorted(scores, reverse=True)
    panel.locator("select").select_option("8")
    expect(panel.locator("li")).to_have_count(8)
    second = panel.locator("li").nth(1)
    wanted = second.locator(".text").text_content()
    assert second.locator("em").count() > 0
    second.get_by_role("button", name="Use").click()
    assert until_text_changes(page, before) == wanted


def test_attention_is_a_heat_map_of_each_kind_layer_and_head(page: Any) -> None:
    translated(page, SENTENCE)
    panel = open_laboratory(page, "attention")
    rows = panel.locator("tbody tr")
    assert together(panel.locator("tbody th").all_text_contents()) == shown(page).replace(" ", "") + "end"
    weights = rows.first.locator("td").evaluate_all(
        "cells => cells.map((each) => each.style.getPropertyValue('--weight'))"
    )
    assert abs(sum(map(float, weights)) - 1) < 0.02
    before = panel.locator("tbody").text_content()
    panel.get_by_label("Head").select_option("0")
    expect(panel.locator("tbody")).not_to_have_text(before)
    panel.get_by_label("Layer").select_option("0")
    panel.get_by_label("Attention").first.select_option("encoder")
    page.wait_for_selector("#attention:not([aria-busy])")
    expect(panel.locator("tbody th").last).to_have_text("end")
    assert panel.locator("tbody th").all_text_contents() == panel.locator("thead th").all_text_contents()
    panel.locator("tbody td").nth(3).hover()
    expect(panel.locator(".caption")).to_contain_text("attends to")


def test_the_tree_shows_the_best_path_and_the_branches_given_up(page: Any) -> None:
    translated(page, SENTENCE)
    panel = open_laboratory(page, "tree")
    pieces = panel.locator(".node.best text").all_text_contents()
    assert together(pieces) == shown(page).replace(" ", "") + "end"
    assert panel.locator(".edge.best").count() == len(pieces) - 1
    pruned = panel.locator(".node.pruned").count()
    assert pruned > len(pieces)
    panel.get_by_label("discarded branches").uncheck()
    expect(panel.locator(".node.pruned")).to_have_count(0)
    panel.get_by_label("discarded branches").check()
    expect(panel.locator(".node.pruned")).to_have_count(pruned)
    panel.locator(".node.pruned").first.click()
    expect(panel.locator(".caption")).to_contain_text("discarded · better ones were kept")
    panel.get_by_label("Beam size").select_option("1")
    page.wait_for_selector("#tree:not([aria-busy])")
    expect(panel.locator(".node.kept.best")).to_have_count(panel.locator(".node.kept").count())


def test_the_tree_is_walked_with_arrow_keys(page: Any) -> None:
    translated(page, SENTENCE)
    panel = open_laboratory(page, "tree")
    panel.locator(".tree").focus()
    before = panel.locator(".caption b").text_content()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert before.startswith(panel.locator(".caption b").text_content())
    page.keyboard.press("ArrowRight")
    assert panel.locator(".node.chosen.best").count() == 0


def test_candidates_in_chinese_differ_by_characters(page: Any) -> None:
    translated(page, "He worked in Beijing for five years and moved to Shanghai last year.")
    panel = open_laboratory(page, "hypotheses")
    second = panel.locator("li").nth(1)
    marked = "".join(second.locator("em").all_text_contents())
    assert 0 < len(marked) < len(second.locator(".text").text_content()) / 2


def test_details_are_those_of_the_sentence_that_is_looked_at(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    panel = open_laboratory(page, "hypotheses")
    assert panel.locator("li .text").first.text_content().startswith("Yesterday")
    page.select_option("#sentence", "1")
    expect(panel.locator("li .text").first).to_contain_text("weather")
    open_laboratory(page, "origin")
    assert page.is_hidden("#sentence")


def test_timing_and_origin_are_shown_and_can_be_copied(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    panel = open_laboratory(page, "origin")
    assert panel.locator(".figures tbody tr").count() == 2
    assert panel.locator(".times li").count() == 3
    digest = panel.locator("dd").nth(2).text_content()
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    panel.get_by_role("button", name="Copy as JSON").click()
    expect(page.locator("#status")).to_have_text("Copied")
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["manifest_sha256"] == digest


def test_what_the_server_does_not_explain_is_not_offered(page: Any, faults: list[str]) -> None:
    page.route("**/v1/explain", lambda route: route.fulfill(status=501, json={"detail": "not implemented"}))
    translated(page, SENTENCE)
    page.click("#laboratory summary")
    page.click("#tab-tree")
    expect(page.locator("#tab-tree, #tab-attention")).to_have_count(0)
    assert page.is_visible("#hypotheses")
    assert [each for each in faults if "status of 501" not in each] == []
    faults.clear()
