"""Options become the settings of requests, and what is wrong with them is named."""

from __future__ import annotations

from typing import Any

import pytest

from xuanzang.server import InvalidInputError, ProtectedPattern, SamplingOptions, check_options
from xuanzang.server.in_process.options import settings_of
from xuanzang.translation.v1 import translation_pb2 as pb


def test_every_option_has_its_place_in_the_settings() -> None:
    settings = settings_of(
        {
            "source_language": "zh",
            "target_language": "en",
            "model": "zh-en/2",
            "beam_size": 3,
            "no_repeat_ngram_size": 0,
            "suppressed_texts": ["a", "b"],
            "sampling": SamplingOptions(seed=0),
            "return_scores": True,
            "return_quality": False,
            "content_format": "html",
            "glossary": {"猫": "cat", "狗": ["dog", "hound"]},
            "glossary_name": "animals",
            "protected_patterns": ["URL", ProtectedPattern.CODE],
            "length_penalty": None,
        }
    )
    assert settings == pb.TranslationSettings(
        source_language_code="zh",
        target_language_code="en",
        model="zh-en/2",
        options=pb.DecodingOptions(
            beam_size=3, no_repeat_ngram_size=0, suppressed_texts=["a", "b"], sampling=pb.SamplingOptions(seed=0)
        ),
        return_scores=True,
        content_format=pb.CONTENT_FORMAT_HTML,
        glossary_entries=[
            pb.GlossaryEntry(source="猫", targets=["cat"]),
            pb.GlossaryEntry(source="狗", targets=["dog", "hound"]),
        ],
        glossary="animals",
        protected_patterns=[pb.PROTECTED_PATTERN_URL, pb.PROTECTED_PATTERN_CODE],
    )
    assert settings.options.HasField("no_repeat_ngram_size")
    assert not settings.options.HasField("length_penalty")
    assert settings_of({"sampling": SamplingOptions()}).options.HasField("sampling")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"beam_size": 99}, "options.beam_size"),
        ({"beam_size": 2**40}, "options.beam_size"),
        ({"target_prefix": "\ud800"}, "options.target_prefix"),
        ({"model": "\udcff"}, "model"),
        ({"suppressed_texts": ["fine", "\ud800"]}, "options.suppressed_texts"),
        ({"glossary": {"\ud800": "x"}}, "glossary_entries"),
        ({"glossary": {"x": ""}}, "glossary_entries[0].targets"),
        ({"content_format": "pdf"}, "content_format"),
        ({"protected_patterns": ["urls"]}, "protected_patterns"),
        ({"sampling": SamplingOptions(top_k=1000)}, "options.sampling.top_k"),
        ({"sampling": SamplingOptions(seed=2**40)}, "options.sampling"),
        ({"length_penalty": float("nan")}, "options.length_penalty"),
    ],
)
def test_a_value_that_no_model_takes_is_refused_by_name(options: Any, field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_options(**options)
    [violation] = refused.value.violations
    assert violation.field.startswith(field)
    assert violation.description


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": "4"},
        {"beam_size": 4.5},
        {"target_prefix": 3},
        {"suppressed_texts": "abc"},
        {"suppressed_texts": [1]},
        {"protected_patterns": "url"},
        {"glossary": [("a", "b")]},
        {"glossary": {"a": 5}},
        {"sampling": {"seed": 3}},
        {"beams": 4},
    ],
)
def test_a_value_of_another_type_is_a_type_error_that_names_the_option(options: Any) -> None:
    [name] = options
    with pytest.raises(TypeError, match=name):
        check_options(**options)


def test_all_options_that_have_no_possible_value_are_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_options(beam_size=0, length_penalty=-1.0, content_format="text")
    assert [each.field for each in refused.value.violations] == ["options.beam_size", "options.length_penalty"]
