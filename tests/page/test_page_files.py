"""Files: dropped on the page or chosen, translated, and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.e2e

MARKDOWN = "# 你好\n\n我有一只猫。\n\n```\n猫\n```\n"

DROP = """
([name, content]) => {
  const files = new DataTransfer();
  files.items.add(new File([content], name));
  for (const kind of ["dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true }));
  }
}
"""


def saved(page: Any) -> str:
    with page.expect_download() as download:
        page.click(".save")
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_a_file_dropped_on_the_page_comes_back_translated(page: Any) -> None:
    page.evaluate(DROP, ["猫.md", MARKDOWN])
    page.wait_for_selector(".save")
    assert page.get_attribute("#tab-files", "aria-selected") == "true"
    assert page.text_content(".save") == "猫.en.md"
    content = saved(page)
    assert content.startswith("# ")
    assert "I have a cat." in content
    assert "```\n猫\n```" in content
    assert page.text_content(".files .faint") == "Passages translated: 2 (8 characters)."


def test_files_follow_one_another_and_can_be_cancelled(page: Any) -> None:
    page.click("#tab-files")
    lines = "\n".join(f"昨天我和{number}个朋友去看了一场电影，我们都很喜欢。" for number in range(300))
    files = [
        {"name": "long.txt", "mimeType": "text/plain", "buffer": lines.encode()},
        {"name": "short.txt", "mimeType": "text/plain", "buffer": "我有一只猫。".encode()},
    ]
    page.set_input_files("#files input[type=file]", files)
    page.get_by_role("button", name="Cancel").first.click()
    page.wait_for_selector(".save")
    assert page.locator(".files li .faint").first.text_content() == "cancelled"
    assert saved(page) == "I have a cat."


def test_a_hostile_name_of_a_file_is_shown_as_it_is(page: Any) -> None:
    page.click("#tab-files")
    name = "<img src=x onerror=alert(1)>.txt"
    page.set_input_files("#files input[type=file]", [{"name": name, "mimeType": "text/plain", "buffer": b"a"}])
    page.wait_for_selector(".save")
    assert page.text_content(".save") == "<img src=x onerror=alert(1)>.en.txt"
    assert page.locator("#files img").count() == 0


def test_a_file_that_is_refused_says_what_can_be_done(page: Any, faults: list[str]) -> None:
    page.click("#tab-files")
    given = [
        {"name": "report.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"},
        {"name": "table.csv", "mimeType": "text/csv", "buffer": b"\xff\xfe\x00"},
        {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a" * (4 * 2**20 + 1)},
    ]
    page.set_input_files("#files input[type=file]", given)
    complaints = page.locator(".files .complaint")
    expect(complaints).to_have_count(3)
    pdf, table, large = complaints.all_text_contents()
    assert pdf == ".pdf files cannot be translated. Save the file as .docx, .html or .txt and try again."
    assert table.startswith("This file cannot be read: ")
    assert large == "This file is larger than the server accepts. Split it into parts."
    assert [each for each in faults if "Failed to load resource" not in each] == []
    faults.clear()


def test_a_file_in_the_target_language_goes_into_the_other_one(page: Any) -> None:
    page.select_option("#target-language", "zh")
    page.click("#tab-files")
    content = "他在北京工作了五年。".encode()
    page.set_input_files("#files input[type=file]", [{"name": "a.txt", "mimeType": "text/plain", "buffer": content}])
    page.wait_for_selector(".save")
    assert page.text_content(".save") == "a.en.txt"
    assert page.input_value("#target-language") == "en"


def test_a_file_in_which_nothing_was_translated_says_so(page: Any, faults: list[str]) -> None:
    page.select_option("#target-language", "zh")
    page.click("#tab-files")
    content = "a,b\n猫,我有一只猫。\n".encode()
    page.set_input_files("#files input[type=file]", [{"name": "t.csv", "mimeType": "text/csv", "buffer": content}])
    page.locator("#files li").get_by_role("textbox").fill("b")
    page.keyboard.press("Enter")
    page.wait_for_selector(".save")
    expect(page.locator(".files .faint").first).to_contain_text("Nothing was translated")
    assert [each for each in faults if "status of 400" not in each] == []
    faults.clear()


def test_a_table_asks_for_its_columns_and_is_translated_with_them(page: Any, faults: list[str]) -> None:
    page.click("#tab-files")
    content = "a,b\n猫,我有一只猫。\n".encode()
    page.set_input_files("#files input[type=file]", [{"name": "t.csv", "mimeType": "text/csv", "buffer": content}])
    expect(page.locator(".files .complaint")).to_contain_text("Name the columns to translate")
    expect(page.locator(".files .complaint")).to_contain_text("a, b")
    page.locator("#files li").get_by_role("textbox").fill("b")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".save")
    assert saved(page) == "a,b\n猫,I have a cat.\n"
    assert [each for each in faults if "status of 400" not in each] == []
    faults.clear()
