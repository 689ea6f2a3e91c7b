"""Terms and protected texts in source texts."""

from __future__ import annotations

import pytest

from xuanzang.text.terminology.terms import GlossaryEntry, TermIndex, Terms
from xuanzang.text.types import ProtectedPattern
from xuanzang.text.words import find_whole


def terms(*entries: tuple[str, str], patterns: tuple[ProtectedPattern, ...] = ()) -> Terms:
    index = TermIndex(GlossaryEntry(source=source, targets=(target,)) for source, target in entries)
    return Terms(indices=(index,), patterns=patterns, fields=("glossary_entries",))


def test_the_longest_term_at_a_place_is_found() -> None:
    found = terms(("苹果", "apple"), ("苹果公司", "Apple"), ("公司", "company")).find("苹果公司卖苹果。")
    assert [(term.source, term.targets[0], term.start, term.end) for term in found] == [
        ("苹果公司", "Apple", 0, 4),
        ("苹果", "apple", 5, 7),
    ]


def test_terms_are_whole_words_where_a_script_has_spaces() -> None:
    found = terms(("Go", "Go"), ("cat", "Katze")).find("Google用Go写 concat cat")
    assert [(term.source, term.start) for term in found] == [("Go", 7), ("cat", 18)]


def test_terms_are_found_in_any_width_and_their_spans_are_those_of_the_text() -> None:
    text = "㈱用Ｅｘｃｅｌ。"
    [term] = terms(("Excel", "Excel")).find(text, offset=10)
    assert (term.source, term.start, term.end) == ("Ｅｘｃｅｌ", 12, 17)
    assert text[term.start - 10 : term.end - 10] == term.source


def test_a_part_of_a_character_is_no_term() -> None:
    assert not terms(("株", "stock"), ("2", "two")).find("㈱ m²")
    assert [term.source for term in terms(("1", "one"), ("(株)", "Inc")).find("㈱ ①")] == ["㈱", "①"]


def test_case_counts_in_both_directions() -> None:
    assert not terms(("Go", "Go"), ("api", "api")).find("go GO API")


def test_a_sharp_or_two_plus_signs_belong_to_the_word_before_them() -> None:
    found = terms(("C", "C"), ("Ctrl", "Ctrl"), ("12", "12")).find("C#, C++11, C＃和Ｃ＋＋；issue#12 Ctrl+C, C")
    assert [(term.source, term.start) for term in found] == [("12", 24), ("Ctrl", 27), ("C", 32), ("C", 35)]


def test_terms_may_begin_and_end_with_punctuation() -> None:
    text = "用.NET和C++写《红楼梦》，Yahoo!也用。"
    entries = [(source, "x") for source in (".NET", "C++", "《红楼梦》", "Yahoo!")]
    assert [term.source for term in terms(*entries).find(text)] == [source for source, _ in entries]


def test_a_character_within_a_longer_word_is_found_unless_the_word_is_an_entry() -> None:
    assert [term.start for term in terms(("表", "table")).find("代表坐在表上")] == [1, 4]
    found = terms(("表", "table"), ("代表", "delegate")).find("代表坐在表上")
    assert [(term.source, term.start) for term in found] == [("代表", 0), ("表", 4)]


def test_terms_do_not_go_on_over_a_line_break() -> None:
    assert not terms(("机器学习", "machine learning")).find("机器\n学习")


def test_terms_with_marks_that_may_end_a_sentence_are_told() -> None:
    found = terms(("Yahoo!", "x"), ("你好！世界", "x"), ("猫", "x")).with_marks("猫说：你好！世界，Yahoo！猫")
    assert found == [(3, 8), (9, 15)]
    assert terms(("猫", "x")).with_marks("猫！") == []


def test_entries_of_the_request_come_before_those_of_a_glossary() -> None:
    own, stored = (TermIndex([GlossaryEntry(source="源", targets=(target,))]) for target in ("spring", "source"))
    [term] = Terms(indices=(own, stored), fields=("glossary",)).find("源")
    assert term.targets == ("spring",)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (
            ProtectedPattern.URL,
            "见https://a.example/x?y=1&z=(2)。www.b.example, 完",
            ["https://a.example/x?y=1&z=(2", "www.b.example"],
        ),
        (ProtectedPattern.EMAIL, "写给ann.lee+x@mail.example.org。a@b", ["ann.lee+x@mail.example.org"]),
        (
            ProtectedPattern.CODE,
            "`x = 1` 和max_size、parseDate、open()、--dry-run 及 Word",
            ["`x = 1`", "max_size", "parseDate", "open()", "--dry-run"],
        ),
        (
            ProtectedPattern.PLACEHOLDER,
            "{0} {name} {{x}} ${HOME} %s %(n)d 50%",
            ["{0}", "{name}", "{{x}}", "${HOME}", "%s", "%(n)d"],
        ),
        (ProtectedPattern.NUMBER, "1,024.5元、12:30、50%、v2 3D", ["1,024.5", "12:30", "50%"]),
        (
            ProtectedPattern.TAG,
            '<b>好</b><br/><a href="x">1 < 2&nbsp;',
            ["<b>", "</b>", "<br/>", '<a href="x">', "&nbsp;"],
        ),
    ],
)
def test_patterns_find_what_is_not_translated(pattern: ProtectedPattern, text: str, expected: list[str]) -> None:
    found = Terms(patterns=(pattern,), fields=("protected_patterns",)).find(text)
    assert [term.source for term in found] == expected
    assert {term.pattern for term in found} == {pattern}


def test_phrases_are_found_as_whole_words() -> None:
    assert find_whole("cats cat", "cat") == 5
    assert find_whole("concat", "cat") == -1
    assert find_whole("我爱北京", "北京") == 2
