from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.client.conftest import Client, Script, Serve, offer

from xuanzang.client import (
    FinishReason,
    InvalidRequestError,
    ProtectedPattern,
    SamplingOptions,
    ServerFaultError,
    TokenDetail,
    TranslationClient,
)
from xuanzang.client._commands.translation_arguments import read_glossary
from xuanzang.client._methods.requests import translate_request
from xuanzang.translation.v1 import translation_pb2 as pb


def test_translations_come_in_the_order_of_the_texts(client: Client, script: Script) -> None:
    result = client.translate(["b", "a", "c"], source_language="zh", target_language="en")
    assert [each.text for each in result] == ["B", "A", "C"]
    assert {(each.model, each.model_version) for each in result} == {("zh-en", "1")}
    assert list(script.requests[0].contents) == ["b", "a", "c"]
    assert client.translate_one("猫 a").text == "猫 A"


def test_a_string_instead_of_a_sequence_is_refused_with_the_right_method(client: Client, script: Script) -> None:
    with pytest.raises(TypeError, match="translate_one"):
        client.translate(cast("Any", "abc"))
    with pytest.raises(TypeError, match="suppressed_texts is a sequence of str"):
        client.translate(["a"], suppressed_texts="cat")
    assert not script.requests


def test_no_texts_need_no_call(client: Client, script: Script) -> None:
    assert client.translate([]) == []
    assert not script.requests


def test_options_that_are_left_out_or_none_are_not_sent(client: Client, script: Script) -> None:
    client.translate(["a"], beam_size=None, content_format=None)
    client.translate(["a"], sampling=SamplingOptions())
    assert script.requests[0] == pb.TranslateTextRequest(contents=["a"], settings=pb.TranslationSettings())
    assert script.requests[1].settings.options.HasField("sampling")


@pytest.mark.parametrize("method", ["translate", "translate_stream", "translate_progressively"])
def test_every_option_reaches_the_wire(client: Client, script: Script, method: str) -> None:
    of_the_search: dict[str, Any] = {
        "beam_size": 5,
        "num_hypotheses": 2,
        "length_penalty": 0.0,
        "min_target_length": 0,
        "max_target_length": 7,
        "coverage_penalty": 0.5,
        "repetition_penalty": 2.0,
        "no_repeat_ngram_size": 3,
        "target_prefix": "I",
        "suppressed_texts": ("cat", "dog"),
        "partial_on_deadline": True,
        "refuse_long_sentences": True,
    }
    returned = ("return_alternatives", "return_scores", "token_details", "return_quality", "return_provenance")
    of_texts: dict[str, Any] = dict.fromkeys((*returned, "pass_through_unserved"), True) | {"allow_pivot": False}
    sampling: dict[str, Any] = {"top_k": 5, "top_p": 0.5, "temperature": 2.0, "seed": 0}
    getattr(client, method)(
        "a" if method == "translate_progressively" else ["a", "b"],
        source_language="zh",
        target_language="en",
        model="zh-en",
        sampling=SamplingOptions(**sampling),
        content_format="html",
        glossary={"源": "spring", "表": ["table", "watch"]},
        glossary_name="tech",
        protected_patterns=["url"],
        placeholders=["printf", "icu"],
        **of_the_search,
        **of_texts,
    )
    options = pb.DecodingOptions(sampling=pb.SamplingOptions(**sampling), **of_the_search)
    settings = pb.TranslationSettings(
        source_language_code="zh",
        target_language_code="en",
        model="zh-en",
        options=options,
        content_format=pb.CONTENT_FORMAT_HTML,
        glossary_entries=[
            pb.GlossaryEntry(source="源", targets=["spring"]),
            pb.GlossaryEntry(source="表", targets=["table", "watch"]),
        ],
        glossary="tech",
        protected_patterns=[pb.PROTECTED_PATTERN_URL],
        placeholders=[pb.PLACEHOLDER_FAMILY_PRINTF, pb.PLACEHOLDER_FAMILY_ICU],
        **of_texts,
    )
    assert [each.settings for each in script.requests] == [settings] * (2 if method == "translate_stream" else 1)
    for message in (options, settings):
        assert {field.name for field, _ in message.ListFields()} == {field.name for field in message.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_sise": 4}, r"no such option: beam_sise; did you mean beam_size\?"),
        ({"timout": 4}, r"no such option: timout; did you mean timeout\?"),
        ({"zzz": 4}, "no such option: zzz$"),
        ({"beam_size": "4"}, "options.beam_size is a str, not an int"),
        ({"beam_size": 4.5}, "options.beam_size is a float, not an int"),
        ({"length_penalty": "1"}, "options.length_penalty is a str, not a number"),
        ({"return_scores": "yes"}, "return_scores is a str, not a bool"),
        ({"target_prefix": 4}, "options.target_prefix is a int, not a str"),
        ({"source_language": 4}, "source_language is a int, not a str"),
        ({"model": b"zh-en"}, "model is a bytes, not a str"),
        ({"timeout": "4"}, "timeout is a str, not a number of seconds"),
        ({"content_format": 2}, "content_format is a int"),
        ({"texts": ["a", None]}, r"contents\[1\] is a NoneType"),
    ],
)
def test_a_type_error_names_the_option_and_the_nearest_one(client: Client, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        client.translate(**{"texts": ["a"], **options})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"texts": ["a", "\ud800"]}, "contents[1]"),
        ({"beam_size": 2**40}, "options.beam_size"),
        ({"sampling": SamplingOptions(seed=2**31)}, "options.sampling.seed"),
        ({"target_prefix": "\ud800"}, "options.target_prefix"),
        ({"suppressed_texts": ["a", "\ud800"]}, "options.suppressed_texts[1]"),
    ],
)
def test_what_cannot_be_encoded_is_refused_by_name(client: Client, options: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(field)) as caught:
        client.translate(**{"texts": ["a"], **options})
    assert [violation.field for violation in caught.value.violations] == [field]
    assert not caught.value.retryable


def answer(script: Script, *hypotheses: pb.Hypothesis, times: int = 1) -> None:
    response = pb.TranslateTextResponse(translations=[pb.Translation(hypotheses=hypotheses)] * times)
    script.on_translate = lambda request, context: response


def test_hypotheses_keep_scores_counts_and_reasons(client: Client, script: Script) -> None:
    tokens = [pb.TokenDetail(text="x", score=-0.25, source_start=1, source_end=2), pb.TokenDetail()]
    answer(
        script,
        pb.Hypothesis(
            text="x", score=-0.5, token_count=3, finish_reason=pb.FINISH_REASON_END_OF_SENTENCE, tokens=tokens
        ),
        pb.Hypothesis(text="y", token_count=4, finish_reason=pb.FINISH_REASON_MAX_LENGTH),
        # A finish reason of a later version.
        pb.Hypothesis.FromString(pb.Hypothesis(text="z").SerializeToString() + b"\x20\x63"),
    )
    first, second, third = client.translate_one("a").hypotheses
    assert (first.text, first.score, first.token_count) == ("x", -0.5, 3)
    assert first.tokens == (
        TokenDetail(text="x", score=-0.25, source_start=1, source_end=2),
        TokenDetail(text="", score=0.0, source_start=0, source_end=0),
    )
    assert (second.score, second.tokens) == (None, ())
    reasons = [each.finish_reason for each in (first, second, third)]
    assert reasons == [FinishReason.END_OF_SENTENCE, FinishReason.MAX_LENGTH, FinishReason.UNSPECIFIED]


@pytest.mark.parametrize("times", [0, 1], ids=["none at all", "without hypothesis"])
def test_a_missing_translation_is_a_server_fault(client: Client, script: Script, times: int) -> None:
    answer(script, times=times)
    with pytest.raises(ServerFaultError):
        client.translate(["a"])


def test_models_have_all_fields_of_the_response(client: Client, script: Script) -> None:
    offer(script, digest="ab" * 32)
    model = script.models.models[0]
    model.precision, model.max_source_length, model.max_target_length = "int8", 256, 300
    model.default_options.MergeFrom(pb.DecodingOptions(beam_size=4, length_penalty=1.0, coverage_penalty=0.0))
    (read,) = client.list_models()
    assert (read.name, read.version, read.precision, read.manifest_sha256) == ("zh-en", "1", "int8", "ab" * 32)
    assert (read.source_languages, read.target_languages, read.is_default) == (("zh",), ("en",), True)
    assert (read.max_source_length, read.max_target_length) == (256, 300)
    assert (read.defaults.beam_size, read.defaults.length_penalty) == (4, 1.0)
    assert (read.defaults.max_target_length, read.defaults.coverage_penalty) == (None, 0.0)


def test_messages_beyond_the_default_four_megabytes_pass(client: Client, script: Script) -> None:
    text = "a" * (3 * 1024 * 1024)
    answer(script, pb.Hypothesis(text=text), times=2)
    assert [each.text for each in client.translate(["x", "y"])] == [text, text]


def test_calls_are_spread_over_all_addresses(serve: Serve) -> None:
    scripts = [serve(), serve()]
    with TranslationClient([script.address for script in scripts]) as client:
        for _ in range(1000):  # the second connection may come up a moment after the first
            client.translate(["a"])
            if all(script.requests for script in scripts):
                break
    assert all(script.requests for script in scripts)


def test_a_dead_address_among_several_is_skipped(client_type: type[Client], script: Script) -> None:
    client = client_type(["127.0.0.1:1", script.address])
    assert [client.translate_one("a").text for _ in range(3)] == ["A"] * 3


def test_the_user_agent_names_the_client(client: Client, script: Script) -> None:
    client.translate(["a"])
    assert script.metadata[0]["user-agent"].startswith("xuanzang-client/")


@pytest.mark.parametrize("client_id", ["", "x" * 129, "é", "a\nb"])
def test_a_client_id_that_cannot_be_sent_is_refused(client_id: str) -> None:
    with pytest.raises(ValueError, match="client_id must be 1 to 128 printable ASCII characters"):
        TranslationClient("localhost:1", client_id=client_id)


def test_an_unknown_format_of_contents_is_refused(client: Client) -> None:
    with pytest.raises(InvalidRequestError, match="content_format must be one of text, html, xml"):
        client.translate_one("a", content_format=cast("Any", "rtf"))


def test_patterns_may_be_members_or_names() -> None:
    request = translate_request(["a"], protected_patterns=[ProtectedPattern.TAG, "email"])
    assert list(request.settings.protected_patterns) == [pb.PROTECTED_PATTERN_TAG, pb.PROTECTED_PATTERN_EMAIL]
    with pytest.raises(InvalidRequestError, match="protected_patterns"):
        translate_request(["a"], protected_patterns=["phone"])
    with pytest.raises(TypeError):
        translate_request(["a"], protected_patterns="url")


def test_a_file_of_terms_is_read_and_a_faulty_line_named(tmp_path: Path) -> None:
    file = tmp_path / "names.tsv"
    file.write_text("# a remark\n\n源\tspring\tsource\n", encoding="utf-8")
    assert read_glossary(file) == {"源": ["spring", "source"]}
    file.write_text("源\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        read_glossary(file)
