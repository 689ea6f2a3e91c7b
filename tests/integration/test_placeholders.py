"""Placeholders through the bundled models: each is in the translation once and unchanged, or named."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from message_forms import CHINESE_FORMS, ENGLISH_FORMS
from placeholder_kinds import CHINESE, ENGLISH, KINDS, is_kept
from tests.integration.conftest import BUNDLED

from xuanzang.server import InvalidInputError, SamplingOptions, Translation, Translator
from xuanzang.text.types import PlaceholderFamily

ALL = tuple(family.value for family in PlaceholderFamily)
PLAIN = "Click here to continue."


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    with Translator(BUNDLED, workers=1) as translator:
        yield translator


def translate(translator: Translator, text: str, **options: object) -> Translation:
    settings = {"model": "en-zh", "placeholders": ALL}
    return translator.translate_one(text, **settings | options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "sentences"), [("en-zh", ENGLISH), ("zh-en", CHINESE)])
def test_every_kind_is_kept_or_named(translator: Translator, model: str, sentences: tuple[str, ...]) -> None:
    rng = random.Random(7)
    cases = [(kind, rng.choice(sentences).replace("{}", kind)) for kind in KINDS]
    found = translator.translate([text for _, text in cases], model=model, placeholders=ALL)
    refused = [text for (_, text), each in zip(cases, found, strict=True) if each.hypotheses[0].lost_placeholders]
    lost = [
        (text, each.text) for (kind, text), each in zip(cases, found, strict=True) if not is_kept(kind, text, each.text)
    ]
    assert lost == []
    assert len(refused) <= 0.03 * len(cases), refused


def test_messages_of_programs_keep_what_is_not_language_or_are_refused(translator: Translator) -> None:
    refused = []
    for model, forms in (("en-zh", ENGLISH_FORMS), ("zh-en", CHINESE_FORMS)):
        found = translator.translate([form.text for form in forms], model=model, placeholders=ALL)
        faults = [form.fault(each.text) for form, each in zip(forms, found, strict=True)]
        changed = [(form.text, fault) for form, fault in zip(forms, faults, strict=True) if fault]
        assert changed == []
        refused += [each.text for each in found if each.hypotheses[0].lost_placeholders]
    # Most of them have several fields that are filled in by their places.
    assert len(refused) <= 0.04 * len(ENGLISH_FORMS + CHINESE_FORMS), refused


@pytest.mark.parametrize("model", ["en-zh", "zh-en"])
def test_digits_and_signs_are_copied_with_and_without_the_option(translator: Translator, model: str) -> None:
    rng = random.Random(3)
    texts = ["1 2 3", "12 13 14", "5 5", "1000000000000"]
    texts += ["".join(rng.choices("0123456789 .,:;-+()%#$/", k=rng.randint(1, 20))) for _ in range(500)]
    for options in ({}, {"placeholders": ALL}, {"content_format": "html"}):
        found = translator.translate(texts, model=model, **options)
        assert [each.text for each in found] == texts


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Name\tAge\tCity", "\t\t"),
        ("This  is a test", "  "),
        ("It weighs 10\u00a0kg today.", "\u00a0"),
        ("\ufeffThis is a test.", "\ufeff"),
        ("This is\u200b a test\u200e of it.", "\u200b\u200e"),
        ("I ❤\ufe0f this book.", "❤\ufe0f"),
    ],
)
def test_white_space_and_invisible_characters_stay(translator: Translator, text: str, kept: str) -> None:
    for options in ({"placeholders": ()}, {}, {"content_format": "html"}):
        found = translate(translator, text, **options).text
        assert not Counter(kept) - Counter(found), (options, found)
        assert text[0] != "\ufeff" or found[0] == "\ufeff"


@pytest.mark.parametrize(
    ("text", "syntax", "words"),
    [
        (
            "You have {n, plural, =0 {no messages} one {# message} other {# messages}} left.",
            "{n, plural, =0 {…} one {# …} other {# …}}",
            "message",
        ),
        (
            "You have {n, plural, one {one new message} other {{n} new messages}} from {name}.",
            "{n, plural, one {…} other {{n} …}}",
            "message",
        ),
        (
            "{gender, select, male {his} female {her} other {their}} photo was deleted",
            "{gender, select, male {…} female {…} other {…}}",
            "photo",
        ),
    ],
)
def test_only_literal_text_of_messages_is_translated(
    translator: Translator, text: str, syntax: str, words: str
) -> None:
    found = translate(translator, text).text
    pattern = re.escape(syntax).replace("…", "[^{}#]+")
    assert len(re.findall(pattern, found)) == 1, found
    rest = re.sub(pattern, "", found)
    assert not re.search(r"#|[XQ]?[0-9]", rest), "words that stand in for placeholders are replaced by them"
    assert words not in found


def test_unnumbered_fields_keep_their_order_or_are_named(translator: Translator) -> None:
    text = "Your password was changed by %s on %d."
    found = translate(translator, text).hypotheses[0]
    if found.lost_placeholders:
        assert (found.text, found.finish_reason.name) == (text, "PLACEHOLDER_LOST")
    else:
        assert found.text.index("%s") < found.text.index("%d")


def test_the_order_of_fields_is_not_kept_at_the_cost_of_the_sense(translator: Translator) -> None:
    found = translate(translator, "无法从 %s 读取 %d 个字节。", model="zh-en").hypotheses[0]
    assert found.lost_placeholders or "%d byte" in found.text
    found = translate(translator, "Your photo was liked by %d others and %s.").hypotheses[0]
    assert not found.lost_placeholders


def test_no_number_of_a_stand_in_is_left_in_a_translation(translator: Translator) -> None:
    for model, text in (("zh-en", "共{1}个，第{0}个"), ("zh-en", "第{a}页，第{b}行"), ("en-zh", "Page {a}, line {b}")):
        found = translate(translator, text, model=model).hypotheses[0]
        assert found.lost_placeholders or not set("123456789") & set(found.text) - set(text), found.text


def test_a_text_without_placeholders_is_translated_as_without_the_option(translator: Translator) -> None:
    texts = [each.replace("{}", "it") for each in ENGLISH]
    plain = translator.translate(texts, model="en-zh", return_scores=True)
    assert translator.translate(texts, model="en-zh", return_scores=True, placeholders=ALL) == plain


def test_every_hypothesis_holds_the_placeholders(translator: Translator) -> None:
    text = "Click {name} to open %s."
    for options in (
        {"num_hypotheses": 3},
        {"num_hypotheses": 3, "return_alternatives": True},
        {"beam_size": 1},
        {"sampling": SamplingOptions(seed=1), "num_hypotheses": 2},
        {"glossary": {"Click": "单击"}},
        {"protected_patterns": ["number", "placeholder"]},
        {"content_format": "html"},
        {"content_format": "xml"},
        {"return_quality": True, "return_provenance": True},
    ):
        for each in translate(translator, text, **options).hypotheses:
            assert each.text.count("{name}") == each.text.count("%s") == 1, options


def test_a_name_without_an_end_of_its_own_does_not_run_into_chinese_words(translator: Translator) -> None:
    for text in ("@:common.yes sir", "The file $FILE was not found"):
        assert not re.search(r"(?:@:common\.yes|\$FILE)\w", translate(translator, text).text)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("zh-en", "您好，【姓名】！您的订单已发货。"),
        ("zh-en", "【重要通知】点击〔确定〕，再读『红楼梦』和〈电话〉。"),
        ("zh-en", "请输入【姓名和电话〕。"),
        ("zh-en", "乱码\ufffd在这里。"),
        ("zh-en", "请按 ˘ 和 〃 继续。"),
        ("en-zh", "Enter 【your name】 here, then press ˂ to continue."),
    ],
)
def test_signs_that_a_vocabulary_lacks_are_kept_in_every_form(translator: Translator, model: str, text: str) -> None:
    for options in ({}, {"placeholders": ALL}, {"content_format": "html"}, {"beam_size": 1}):
        found = translator.translate_one(text, model=model, **options).text
        for sign in "【】〔〕『』〈〉\ufffd˘〃˂":
            assert found.count(sign) == text.count(sign), found


def test_amounts_and_comparisons_by_references_keep_their_numbers(translator: Translator) -> None:
    for text in ("Price: &euro;5 &ndash; 10&nbsp;&euro;", "5 &lt; 6 and 7 &gt; 2", "It was 20&deg;C today."):
        found = translate(translator, text).text
        parts = re.compile(r"&\w+;|\d+")
        assert Counter(parts.findall(found)) == Counter(parts.findall(text)), found


def test_a_glossary_is_kept_beside_placeholders(translator: Translator) -> None:
    found = translate(translator, "Click {name} to open the printer.", glossary={"printer": "印表机"})
    assert "{name}" in found.text
    assert [(match.source, match.target) for match in found.glossary_matches] == [("printer", "印表机")]


def test_a_progressive_translation_ends_with_the_placeholders(translator: Translator) -> None:
    parts = list(translator.translate_progressively("Hello {name}. Click %s.", model="en-zh", placeholders=ALL))
    text = "".join(part.text_delta for part in parts)
    assert parts[-1].translation is not None
    assert text == parts[-1].translation.text
    assert ("{name}" in text, "%s" in text) == (True, True)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"token_details": True}, "token_details"),
        ({"target_prefix": "点"}, "options.target_prefix"),
        ({"placeholders": ["printf", "printf"]}, "placeholders[1]"),
        ({"placeholders": ["other"]}, "placeholders"),
    ],
)
def test_what_placeholders_exclude_is_named(translator: Translator, options: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        translate(translator, PLAIN, **options)
    assert field in str(refused.value)


def test_too_many_placeholders_are_refused(translator: Translator) -> None:
    with pytest.raises(InvalidInputError, match="at most 2000 placeholders"):
        translate(translator, "I {b}, " * 2500, source_language="en")


@pytest.mark.parametrize(
    ("text", "options", "kept", "signs"),
    [
        # A part of a number is written as a fraction.
        ("Copied %d of %d files.", {}, "%d/%d", "%%"),
        ("<p>Save &amp;As a file</p>", {"content_format": "html"}, "&amp;", "&"),
    ],
)
def test_fractions_and_accelerators_are_written_as_readers_expect(
    translator: Translator, text: str, options: dict[str, object], kept: str, signs: str
) -> None:
    found = translate(translator, text, **options).hypotheses[0]
    assert (found.text.count(kept), found.text.count(signs[0]), found.lost_placeholders) == (1, len(signs), ())
