from __future__ import annotations

import pytest

from xuanzang.text.language_codes import is_traditional, matched_target
from xuanzang.text.traditional import Kept, is_installed, settled_by, with_traditional, writer_of

needs_tables = pytest.mark.skipif(not is_installed(), reason="needs the extra `traditional`")
TEXT = "他在软件里打印了头发的图片，后来皇后说里面很干净。用鼠标打开互联网！"


@pytest.mark.parametrize("code", ["zh-Hant", "zh-TW", "ZH-HK", "zh-mo", "zh-Hant-TW"])
def test_traditional_chinese_is_never_met_by_simplified(code: str) -> None:
    assert is_traditional(code)
    assert matched_target(code, ["en", "zh"]) is None
    assert matched_target(code, ["zh", "zh-Hant", "zh-HK", "zh-MO", "zh-TW"]) is not None


@pytest.mark.parametrize("code", ["zh", "zh-CN", "zh-Hans", "zh-Hans-HK", "en-HK"])
def test_other_codes_are_not_traditional(code: str) -> None:
    assert not is_traditional(code)


@needs_tables
def test_models_that_write_simplified_chinese_only_write_traditional_too() -> None:
    assert with_traditional(["zh"]) == ("zh", "zh-Hant", "zh-HK", "zh-MO", "zh-TW")
    assert with_traditional(["zh-Hans", "zh-Hant"]) == ("zh-Hans", "zh-Hant")
    assert with_traditional(["en"]) == ("en",)


@needs_tables
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("zh-TW", "他在軟體裡列印了頭髮的圖片，後來皇后說裡面很乾淨。用滑鼠開啟網際網路！"),
        ("zh-HK", "他在軟件裏打印了頭髮的圖片，後來皇后説裏面很乾淨。用鼠標打開互聯網！"),
        ("zh-Hant", "他在軟件裡打印了頭髮的圖片，後來皇后說裡面很乾淨。用鼠標打開互聯網！"),
    ],
)
def test_each_region_has_its_characters_and_words(code: str, expected: str) -> None:
    assert writer_of(code).write(TEXT) == expected


@needs_tables
@pytest.mark.parametrize("code", ["zh-TW", "zh-HK", "zh-Hant"])
def test_what_is_settled_never_changes_and_tokens_make_up_the_text(code: str) -> None:
    writer = writer_of(code)
    whole = writer.write(TEXT)
    for end in range(len(TEXT)):
        assert whole.startswith(writer.settled(TEXT[:end]))
    for size in (1, 2, 3, 7):
        tokens = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
        assert "".join(writer.write_tokens([*tokens, ""], whole)) == whole


@needs_tables
def test_what_the_caller_wrote_is_kept() -> None:
    start = TEXT.index("打印")
    assert "把印出" not in writer_of("zh-TW").write(TEXT)
    assert writer_of("zh-TW").write(TEXT, [Kept(start, start + 2, "打印")]).startswith("他在軟體裡打印了頭髮")


@needs_tables
def test_nothing_is_settled_before_the_end_where_parts_are_the_callers() -> None:
    settled = settled_by(writer_of("zh-TW"), whole=True)
    assert settled is not None
    assert settled("软件，") == ""
    assert settled_by(None, whole=True) is None
