"""Terms in a translation: which forms count, what is spelled as asked, and what became of each term."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.text.terminology.target_terms import TargetTerms
from xuanzang.text.terminology.terms import FoundTerm
from xuanzang.text.types import GlossaryOutcome, ProtectedPattern


def terms_of(*targets: str, is_english: bool = True, pattern: ProtectedPattern | None = None) -> TargetTerms:
    found = [
        FoundTerm(start=at, end=at + 1, source="源", targets=(target,), pattern=pattern)
        for at, target in enumerate(targets)
    ]
    return TargetTerms(found=tuple((term, None) for term in found), is_english=is_english)


def outcomes(text: str, *targets: str, is_english: bool = True) -> list[bool]:
    matches = terms_of(*targets, is_english=is_english).matches(text)
    return [match.outcome is GlossaryOutcome.HONOURED for match in matches]


def test_a_translation_within_another_has_a_place_of_its_own() -> None:
    assert outcomes("Apple Inc sells phones.", "Apple", "Apple Inc") == [False, True]
    assert outcomes("Apple Inc sells an Apple.", "Apple", "Apple Inc") == [True, True]
    assert outcomes("An Apple of Apple Inc.", "Apple Inc", "Apple") == [True, True]


def test_each_occurrence_of_a_term_has_a_place_of_its_own() -> None:
    assert outcomes("a cat and a cat", "cat", "cat", "cat") == [True, True, False]


def test_a_translation_counts_as_a_whole_word_with_its_marks() -> None:
    assert outcomes("C++ and C#", "C", "C++", "C#") == [False, True, True]
    assert outcomes("Press Ctrl+C.", "Ctrl", "C") == [True, True]
    assert outcomes("We use .NET, (Yahoo!) and #1", ".NET", "Yahoo!", "#1") == [True, True, True]
    assert outcomes("the Skylark's price", "Skylark") == [True]


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("control hub", "Two control hubs."),
        ("box", "Two boxes."),
        ("switch", "Two switches."),
        ("battery", "Two batteries."),
        ("key", "Two keys."),
        ("Kowalczyk app", "Two Kowalczyk apps."),
    ],
)
def test_an_english_noun_may_be_a_plural(target: str, written: str) -> None:
    assert outcomes(written, target) == [True]
    assert outcomes(written, target, is_english=False) == [False]
    [match] = terms_of(target).matches(written)
    assert written[match.target_start :] == f"{match.target}."


def test_names_and_what_ends_in_s_have_no_plural() -> None:
    assert outcomes("Two Larks and two WeChats.", "Lark", "WeChat") == [False, False]
    assert outcomes("Two buss.", "bus") == [False]


@pytest.mark.parametrize("opening", ["", "“", '"', "("])
def test_a_lower_case_term_may_begin_a_sentence_with_a_capital(opening: str) -> None:
    text = f"{opening}Printer is on. See the Printer."
    terms = terms_of("printer")
    [match] = terms.matches(text)
    assert (match.target, match.target_start) == ("Printer", len(opening))
    assert terms.spelled(text) == text
    assert outcomes(text, "iPad", "printer") == [False, True]


@pytest.mark.parametrize(
    ("target", "found", "written"),
    [
        ("The Wandering Earth", "I saw the Wandering Earth.", "I saw The Wandering Earth."),
        ("Black Myth", "He likes black Myth.", "He likes Black Myth."),
        ("control hub", "If so, the Control hub opens.", "If so, the control hub opens."),
        ("泽菲2号", "则 泽菲2 号变灰。", "则泽菲2号变灰。"),
        # A space ends a clause in Thai.
        ("เฟยชู", "ฉันใช้เฟยชู แล้วเขา", "ฉันใช้เฟยชู แล้วเขา"),
        ("e-bike", "An E-bike is here, and an e -bike.", "An e-bike is here, and an e -bike."),
    ],
)
def test_what_differs_in_case_and_space_is_spelled_as_asked(target: str, found: str, written: str) -> None:
    terms = terms_of(target)
    assert terms.spelled(found) == written
    assert terms.missed(written) == 0
    assert [match.target for match in terms.matches(written)] == [target]


def test_what_is_there_already_is_left_as_it_is() -> None:
    text = "Black Myth is no black myth."
    assert terms_of("Black Myth").spelled(text) == text


def test_a_part_of_a_word_and_the_place_of_another_term_are_not_respelled() -> None:
    assert terms_of("Lark").spelled("the skylark sings") == "the skylark sings"
    assert terms_of("Apple Inc", "apple").spelled("Apple Inc sells.") == "Apple Inc sells."
    assert terms_of("Lark").missed("the skylark sings") == 1


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("IT", "I put it in the office."),
        ("US", "Tell us about it."),
        ("Word", "A word of it."),
        ("WHO", "Who is it?"),
        ("apart", "It is a part of it."),
        ("a part", "It stands apart."),
    ],
)
def test_another_word_with_the_same_letters_is_no_term(target: str, written: str) -> None:
    assert terms_of(target).spelled(written) == written
    assert terms_of(target).missed(written) == 1


@pytest.mark.parametrize("kept", ["user_id", "https://a.b/c", "support@example.com", "npm"])
def test_what_stays_as_it_is_in_the_source_gets_neither_a_capital_nor_a_plural(kept: str) -> None:
    protected = TargetTerms(
        found=((FoundTerm(start=0, end=9, source=kept, targets=(kept,), pattern=ProtectedPattern.CODE), None),),
        is_english=True,
    )
    named = TargetTerms(found=((FoundTerm(start=0, end=9, source=kept, targets=(kept,)), None),), is_english=True)
    for terms in (protected, named):
        assert terms.spelled(f"{kept} is required.") == f"{kept} is required."
        assert terms.missed(f"Two {kept}s.") == 1


def test_a_capital_of_two_letters_and_the_rest_of_a_cut_sentence_stay_small() -> None:
    assert terms_of("ßeta").spelled("ßeta is.") == "ßeta is."
    cut = TargetTerms(found=terms_of("firewall").found, is_english=True, begins_sentence=False)
    assert cut.spelled("firewall is on.") == "firewall is on."


def test_a_search_that_requires_terms_from_its_start_is_not_respelled() -> None:
    terms = TargetTerms(found=terms_of("firewall").found, is_english=True, respells=False)
    assert terms.spelled("firewall is on.") == "firewall is on."
    assert terms.spelled_tokens(["fire", "wall", "."]) == ["fire", "wall", "."]


def test_many_equal_terms_take_their_places_in_one_pass() -> None:
    text = "a cat, " * 2000
    matches = terms_of(*["cat"] * 2000).matches(text)
    assert [match.target_start for match in matches] == list(range(2, len(text), 7))


def test_protected_texts_are_never_respelled() -> None:
    terms = terms_of("parseDate", pattern=ProtectedPattern.CODE)
    assert terms.spelled("the ParseDate function") == "the ParseDate function"
    assert terms.missed("the ParseDate function") == 1


@given(st.lists(st.sampled_from([" the", " Black", "black", " ", "Myth", " myth", ".", "泽菲", " 2", "号", ""])))
def test_tokens_stand_together_for_the_text_that_is_written(tokens: list[str]) -> None:
    terms = terms_of("Black Myth", "泽菲2号")
    written = terms.spelled_tokens(tokens)
    assert len(written) == len(tokens)
    assert "".join(written) == terms.spelled("".join(tokens))


def test_a_lower_case_term_that_begins_a_sentence_is_written_with_a_capital() -> None:
    terms = terms_of("firewall")
    assert terms.spelled("firewall blocked it.") == "Firewall blocked it."
    assert terms.spelled("“firewall is on!”") == "“Firewall is on!”"
    assert "".join(terms.spelled_tokens(["fire", "wall", " is", " on", ".", ""])) == "Firewall is on."
    # A heading, and a name.
    assert terms.spelled("firewall") == "firewall"
    assert terms_of("iPad").spelled("iPad is on.") == "iPad is on."


def test_quotes_that_only_the_source_of_the_model_has_are_dropped() -> None:
    found = FoundTerm(start=0, end=3, source="红楼梦", targets=("Black Myth",))
    terms = TargetTerms(found=((found, None),), is_english=True, drops_quotes=True)
    tokens = ["I", " saw", ' "', "Black", " myth", '."', ""]
    assert terms.spelled("".join(tokens)) == "I saw Black Myth."
    assert "".join(terms.spelled_tokens(tokens)) == "I saw Black Myth."
    assert terms_of("Black Myth").spelled('I saw "Black Myth".') == 'I saw "Black Myth".'
    assert not terms.stays('I saw "Black Myth')


def test_quotes_that_are_not_right_around_a_term_stay() -> None:
    found = FoundTerm(start=0, end=3, source="红楼梦", targets=("Black Myth",))
    terms = TargetTerms(found=((found, None),), is_english=True, drops_quotes=True)
    assert terms.spelled('He said "yes" to the "Black Myth".') == 'He said "yes" to the Black Myth.'
    assert terms.spelled('He said "Black Myth is good".') == 'He said "Black Myth is good".'
    assert terms.spelled('I saw "The Black Myth."') == "I saw The Black Myth."


def test_quotes_within_a_term_are_a_part_of_it() -> None:
    found = FoundTerm(start=0, end=3, source="蓝线", targets=('the "Blue" line',))
    terms = TargetTerms(found=((found, None),), is_english=True, drops_quotes=True)
    assert terms.spelled('Take the "Blue" line now.') == 'Take the "Blue" line now.'
    assert terms.spelled('Take the "blue" Line now.') == 'Take the "Blue" line now.'


def test_no_space_stands_between_a_chinese_term_and_chinese_text() -> None:
    found = FoundTerm(start=0, end=4, source="Lark", targets=("飞书",))
    terms = TargetTerms(found=((found, None),), is_english=False, drops_quotes=True)
    assert terms.spelled("请打开 飞书。") == terms.spelled("请打开 「飞书」。") == "请打开飞书。"
    assert "".join(terms.spelled_tokens(["我用", " 「", "飞书", "」", " 的", "密码", "。"])) == "我用飞书的密码。"
    assert terms.spelled("用 Linux 飞书。") == "用 Linux 飞书。"
    assert not terms.stays("我用飞书 的密码")


def test_ordered_terms_are_in_order_where_each_that_is_there_follows_the_one_before() -> None:
    terms = terms_of("#1", "#2", "#3", pattern=ProtectedPattern.PLACEHOLDER)
    assert terms.is_in_order("#3 #1")
    ordered = replace(terms, found=tuple((replace(term, is_ordered=True), None) for term, _ in terms.found))
    assert ordered.is_in_order("Read #1 from #2 to #3.")
    assert ordered.is_in_order("Read #1 to #3.")
    assert not ordered.is_in_order("Read #2 from #1.")
    assert ordered.has_order
    assert not terms.has_order
