"""In what form a model reads a term: articles before nouns without a determiner, quotes around names."""

from __future__ import annotations

import pytest

from xuanzang.text.terminology.carriers import as_read


def has_article(marked: str, target: str = "printer") -> bool:
    """Return whether a term between brackets in a sentence gets an article."""
    return read(marked, target) == f"the {target}"


def read(marked: str, target: str) -> str:
    start, end = marked.index("["), marked.index("]") - 1
    return as_read(marked.replace("[", "").replace("]", ""), (start, end), target, languages=("zh", "en"))


@pytest.mark.parametrize(
    "marked",
    [
        *(
            "请把[打印机]关掉。",
            "我爸爸不会用[打印机]。",
            "把牛奶放进[打印机]。",
            "从[打印机]里拿出来。",
            "[打印机]需要充电。",
        ),
        *(
            "在[打印机]上有一张纸。",
            "你好，[打印机]坏了。",
            "“[打印机]里没有纸”。",
            "请检查电脑的[打印机]。",
            "项目的[打印机]和纸。",
        ),
    ],
)
def test_a_noun_without_determiner_gets_one(marked: str) -> None:
    assert has_article(marked)


@pytest.mark.parametrize(
    "marked",
    [
        *(
            "我的[打印机]在哪里？",
            "这款[打印机]比那款便宜。",
            "我买了一台[打印机]。",
            "一把[打印机]。",
            "我需要一台新的[打印机]。",
        ),
        *(
            "电脑的[打印机]驱动。",
            "[点击]按钮继续。",
            "请[保存]文件。",
            "不用[保存]。",
            "他在[跑步]。",
            "正在[备份]中。",
        ),
        *("在[保存]之前关闭。", "用[打印]时要小心。"),
    ],
)
def test_what_may_be_a_verb_or_has_a_determiner_gets_none(marked: str) -> None:
    assert not has_article(marked)


@pytest.mark.parametrize("target", ["WeChat", "iPad", "Zephyrix 2", "The printer", "the printer", "my printer", "C++"])
def test_names_and_what_has_an_article_get_none(target: str) -> None:
    assert read("请把[打印机]关掉。", target) == target


@pytest.mark.parametrize("target", ["Xiaomi phone", "e-bike", "set-top box", "QR code"])
def test_the_last_word_tells_a_noun_from_a_name(target: str) -> None:
    assert has_article("请把[打印机]关掉。", target)


def test_a_name_that_stays_as_it_is_gets_no_article() -> None:
    assert as_read("用 git 提交。", (2, 5), "git", languages=("zh", "en")) == "git"


@pytest.mark.parametrize("quoted", ["‘你好’", "＂你好＂", "„你好‟", "﹁你好﹂"])
def test_quotes_of_all_kinds_are_seen(quoted: str) -> None:
    assert read(f"他说{quoted}，看[红楼梦]。", "Google Maps") == "Google Maps"


@pytest.mark.parametrize("target", ["Dream of the Red Chamber", "Google Maps", "Coca-Cola Zero"])
def test_a_name_of_several_words_is_quoted_unless_the_sentence_has_quotes(target: str) -> None:
    assert read("我看过[红楼梦]。", target) == f'"{target}"'
    assert read("我看过《[红楼梦]》。", target) == target
    assert read("他说“你好”，看[红楼梦]。", target) == target


@pytest.mark.parametrize(
    ("sentence", "name", "read"),
    [
        ("Please open DingTalk.", "DingTalk", "「钉钉」"),
        ("Where's my iPad?", "iPad", "「钉钉」"),
        ("Please open the printer.", "printer", "钉钉"),
        ("He said “DingTalk”.", "DingTalk", "钉钉"),
    ],
)
def test_chinese_names_are_quoted_in_english_sentences_without_quotes(sentence: str, name: str, read: str) -> None:
    start = sentence.index(name)
    place = (start, start + len(name))
    assert as_read(sentence, place, "钉钉", languages=("en", "zh")) == read
    assert as_read(sentence, place, "钉钉", languages=("en", "ja")) == "钉钉"
