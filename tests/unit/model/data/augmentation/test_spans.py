from __future__ import annotations

import pytest

from xuanzang.model.data.augmentation.spans import copied_spans, kept_spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("共找到 %d 个文件，用时%.2f秒", ["%d", "%.2f"]),
        ("你好，{name}！欢迎来到{{site}}，${user}。", ["{name}", "{{site}}", "${user}"]),
        ("%(count)s 和 %1$s", ["%(count)s", "%1$s"]),
        ("折扣50%的商品", ["50"]),
        ('点击<b>这里</b>或<a href="x">那里</a>', ["<b>", "</b>", '<a href="x">', "</a>"]),
        ("见https://example.com/a?b=1。", ["https://example.com/a?b=1"]),
        ("写信给me@example.org", ["me@example.org"]),
        ("打开/etc/hosts和C:\\Windows\\a.txt", ["/etc/hosts", "C:\\Windows\\a.txt"]),
        ("用--help运行`make`", ["--help", "`make`"]),
        ("编辑setup.cfg里的max_size和maxSize", ["setup.cfg", "max_size", "maxSize"]),
        ("2024-05-01 的 3.14 和 10:30", ["2024-05-01", "3.14", "10:30"]),
        ("通过HTTP发送", ["HTTP"]),
        ("和/或 A/B 不是路径", []),
        ("我有一只猫。", []),
    ],
)
def test_spans_that_must_be_kept_are_found_in_chinese(text: str, spans: list[str]) -> None:
    assert copied_spans(text) == spans


@pytest.mark.parametrize(("translation", "kept"), [("%s of %s", 2), ("%s", 1), ("none", 0), ("%s, %s, %s", 2)])
def test_a_span_is_kept_as_often_as_the_translation_has_it(translation: str, kept: int) -> None:
    assert kept_spans("%s 的 %s", translation) == (kept, 2)
