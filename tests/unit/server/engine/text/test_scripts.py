from __future__ import annotations

import pytest

from xuanzang.server.engine.text.scripts import is_plainly_chinese, language_of_script


@pytest.mark.parametrize(
    ("text", "languages", "language"),
    [
        ("OK", ["en", "zh"], "en"),
        ("猫", ["en", "zh-Hans"], "zh-Hans"),
        # Latin words stand in Chinese text, not the other way round.
        ("iPhone 15 手机", ["en", "zh"], "zh"),
        ("Привет", ["ru", "en"], "ru"),
        ("テスト", ["ja", "zh"], "ja"),
        ("猫", ["ja", "zh"], None),
        ("Hallo", ["de", "en", "zh"], None),
        ("Привет", ["en", "zh"], None),
        ("12:30 😀", ["en", "zh"], None),
        ("", ["en"], None),
    ],
)
def test_a_script_tells_the_language_if_only_one_is_written_in_it(
    text: str, languages: list[str], language: str | None
) -> None:
    assert language_of_script(text, languages) == language


@pytest.mark.parametrize(
    ("text", "plainly"),
    [
        ("请把这个文件夹移动到别的地方。", True),
        ("請把這個檔案夾移動到別的地方。", True),
        ("用 Python 写一个处理文件夹的小程序", True),
        ("你好", False),
        ("The sign reads 请把这个文件夹移动到别的地方, so I did as it told me.", False),
        ("東京都庁舎展望室開室時間のお知らせ", False),
        ("大韓民國 文化體育觀光部 장관", False),
    ],
)
def test_much_chinese_needs_no_classifier(text: str, plainly: bool) -> None:
    assert is_plainly_chinese(text) is plainly
