"""Documents: dropped on the page or chosen, translated, and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from web_page import open_tab

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
    assert page.get_attribute("#tab-documents", "aria-selected") == "true"
    assert page.text_content(".save") == "猫.en.md"
    content = saved(page)
    assert content.startswith("# ")
    assert "I have a cat." in content
    assert "```\n猫\n```" in content
    assert page.text_content(".files .faint") == "texts: 2, left as they are: 0, characters: 8"


def test_files_can_be_chosen_and_columns_named(page: Any) -> None:
    panel = open_tab(page, "documents")
    panel.get_by_role("textbox").fill("b")
    table = {"name": "t.csv", "mimeType": "text/csv", "buffer": "a,b\n猫,我有一只猫。\n".encode()}
    page.set_input_files("#documents input[type=file]", [table])
    page.wait_for_selector(".save")
    assert saved(page) == "a,b\n猫,I have a cat.\n"


def test_files_follow_one_another_and_can_be_cancelled(page: Any) -> None:
    open_tab(page, "documents")
    lines = "\n".join(f"昨天我和{number}个朋友去看了一场电影，我们都很喜欢。" for number in range(300))
    files = [
        {"name": "long.txt", "mimeType": "text/plain", "buffer": lines.encode()},
        {"name": "short.txt", "mimeType": "text/plain", "buffer": "我有一只猫。".encode()},
    ]
    page.set_input_files("#documents input[type=file]", files)
    page.get_by_role("button", name="Cancel").first.click()
    page.wait_for_selector(".save")
    assert page.locator(".files li").first.text_content() == "long.txtcancelled"
    assert saved(page) == "I have a cat."


def test_a_hostile_name_of_a_file_is_shown_as_it_is(page: Any) -> None:
    open_tab(page, "documents")
    name = "<img src=x onerror=alert(1)>.txt"
    page.set_input_files("#documents input[type=file]", [{"name": name, "mimeType": "text/plain", "buffer": b"a"}])
    page.wait_for_selector(".save")
    assert page.text_content(".save") == "<img src=x onerror=alert(1)>.en.txt"
    assert page.locator("#documents img").count() == 0
