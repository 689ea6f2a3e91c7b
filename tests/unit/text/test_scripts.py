from __future__ import annotations

import pytest

from xuanzang.text.scripts import is_written_in, writing_of


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("OK", "LATIN"),
        ("ＯＫ", "LATIN"),
        ("猫", "CJK"),
        ("テスト", "CJK"),
        ("ﾃｽﾄ", "CJK"),
        ("Привет", "CYRILLIC"),
        ("12:30 😀", ""),
        # Latin words stand in Chinese text, and Chinese words in English text.
        ("iPhone 15 手机", "CJK"),
        ("用 Python 写一个处理文件夹的小程序", "CJK"),
        ("Please click the 确定 button to continue", "LATIN"),
    ],
)
def test_a_text_is_in_the_script_of_most_of_its_words(text: str, script: str) -> None:
    assert writing_of(text).script == script


def test_the_share_of_a_script_is_that_of_its_words() -> None:
    assert writing_of("猫 猫 abcde abcde").share == pytest.approx(0.5)
    assert writing_of("Привет").share == 1.0


@pytest.mark.parametrize(
    ("language", "script", "expected"),
    [
        ("zh", "CJK", True),
        ("ja", "HIRAGANA", True),
        ("ru", "CYRILLIC", True),
        ("sr", "LATIN", True),
        ("ru", "LATIN", False),
        ("en", "CJK", False),
        ("xx", "LATIN", True),
    ],
)
def test_languages_have_scripts(language: str, script: str, expected: bool) -> None:
    assert is_written_in(language, script) is expected
