"""The tabs below the text: n-best, attention, the search tree, terms, quality, timing and origin."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect
from web_page import SENTENCE, TWO_SENTENCES, open_tab, shown, translated, until_text_changes

pytestmark = pytest.mark.e2e


def position(page: Any) -> list[float]:
    """Return x, y and scale of the drawing of the tree."""
    transform = page.get_attribute(".tree svg > g", "transform")
    return [float(each) for each in re.findall(r"-?[\d.]+(?:e-?\d+)?", transform)]


def test_the_best_hypotheses_are_listed_and_one_can_be_used(page: Any) -> None:
    before = translated(page, SENTENCE)
    panel = open_tab(page, "hypotheses")
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
    panel = open_tab(page, "attention")
    rows = panel.locator("tbody tr")
    pieces = [each.replace("▁", " ") for each in panel.locator("tbody th").all_text_contents()]
    assert "".join(pieces).strip() == shown(page) + "</s>"
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
    expect(panel.locator("tbody th").last).to_have_text("</s>")
    assert panel.locator("tbody th").all_text_contents() == panel.locator("thead th").all_text_contents()
    panel.locator("tbody td").nth(3).hover()
    expect(panel.locator(".caption")).to_contain_text("attends to")


def test_the_tree_shows_the_best_path_and_the_branches_given_up(page: Any) -> None:
    translated(page, SENTENCE)
    panel = open_tab(page, "tree")
    pieces = panel.locator(".node.best text").all_text_contents()
    assert "".join(pieces).replace("▁", " ").strip() == shown(page) + "</s>"
    assert panel.locator(".edge.best").count() == len(pieces) - 1
    pruned = panel.locator(".node.pruned").count()
    assert pruned > len(pieces)
    panel.get_by_label("pruned branches").uncheck()
    expect(panel.locator(".node.pruned")).to_have_count(0)
    panel.get_by_label("pruned branches").check()
    expect(panel.locator(".node.pruned")).to_have_count(pruned)
    panel.locator(".node.pruned").first.click()
    expect(panel.locator(".caption")).to_contain_text("pruned · better ones live on")
    panel.get_by_label("Beam size").select_option("1")
    page.wait_for_selector("#tree:not([aria-busy])")
    expect(panel.locator(".node.kept.best")).to_have_count(panel.locator(".node.kept").count())


def test_the_tree_is_moved_and_enlarged_by_mouse_and_keys(page: Any) -> None:
    translated(page, SENTENCE)
    panel = open_tab(page, "tree")
    panel.locator(".tree").scroll_into_view_if_needed()
    page.wait_for_selector(".tree svg > g[transform]")
    x, y, scale = position(page)
    panel.get_by_role("button", name="Enlarge").click()
    assert position(page)[2] > scale
    panel.get_by_role("button", name="Fit").click()
    x, y, scale = position(page)
    box = panel.locator(".tree").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 280)
    page.mouse.up()
    assert position(page) == [x - 40, y - 20, scale]
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    expect(panel.locator(".tree svg > g")).not_to_have_attribute(
        "transform", f"translate({x - 40:g} {y - 20:g}) scale({scale})"
    )
    assert position(page)[2] > scale
    panel.locator(".tree").focus()
    page.keyboard.press("0")
    assert position(page)[2] == scale
    before = panel.locator(".caption b").text_content()
    page.keyboard.press("ArrowLeft")
    assert before.startswith(panel.locator(".caption b").text_content())
    page.keyboard.press("ArrowDown")
    assert panel.locator(".node.chosen.best").count() == 0


def test_details_are_those_of_the_sentence_that_is_looked_at(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    panel = open_tab(page, "hypotheses")
    assert panel.locator("li .text").first.text_content().startswith("Yesterday")
    page.select_option("#sentence", "1")
    expect(panel.locator("li .text").first).to_contain_text("weather")
    open_tab(page, "provenance")
    assert page.is_hidden("#sentence")


def test_terms_are_kept_and_it_is_said_what_became_of_them(page: Any) -> None:
    before = translated(page, "我有一只猫。")
    panel = open_tab(page, "glossary")
    panel.get_by_label("Term").first.fill("猫")
    panel.get_by_label("Translation").first.fill("kitten")
    page.keyboard.press("Tab")
    # The beginning is shown before the rest is known.
    expect(page.locator("#target")).to_contain_text("kitten")
    expect(panel.locator(".honoured")).to_have_text("猫 → kitten · kept")
    panel.get_by_role("button", name="Remove").click()
    expect(page.locator("#target")).to_have_text(before)
    with page.expect_request("**/v1/translate/stream") as asked:
        panel.get_by_label("numbers").check()
    assert asked.value.post_data_json["protected_patterns"] == ["number"]


def test_what_is_suspicious_about_a_translation_is_flagged(page: Any) -> None:
    translated(page, SENTENCE)
    expect(page.locator("#verdict")).to_contain_text("likely to be acceptable")
    page.fill("#source", "猫狗马羊" * 40)
    page.wait_for_selector("#verdict .flag")
    assert page.get_attribute("#verdict .flag", "title")


def test_timing_and_origin_are_shown_and_can_be_copied(page: Any) -> None:
    translated(page, TWO_SENTENCES)
    assert re.fullmatch(r"first words [\d,]+ ms · all [\d,]+ ms", page.text_content("#timing"))
    panel = open_tab(page, "provenance")
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
    page.click("#tab-tree")
    expect(page.locator("#tab-tree, #tab-attention")).to_have_count(0)
    assert page.is_visible("#hypotheses")
    assert [each for each in faults if "status of 501" not in each] == []
    faults.clear()
