from __future__ import annotations

import pytest

from xuanzang.server.engine.text.scripts import language_of_script


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
