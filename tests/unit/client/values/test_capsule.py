"""Provenance, and replay capsules: content, refused files, comparison of answers, the commands."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.client.conftest import Client, Run, Script

from xuanzang.client import Capsule, Exchange, SamplingOptions, ServerFaultError
from xuanzang.client._commands.capsules import report_lines
from xuanzang.client._values.capsule import MAX_EXCHANGES
from xuanzang.translation.v1 import translation_pb2 as pb

ANSWER = text_format.Parse(
    """
    hypotheses {text: "A cat." score: -0.1 token_count: 3 finish_reason: FINISH_REASON_END_OF_SENTENCE}
    provenance {
      method: "TranslateText" model: "zh-en" model_version: "2" manifest_sha256: "ffff" kernels: "avx2"
      settings {target_language_code: "en" options {beam_size: 1 sampling {top_k: 256 seed: 77}}}
      sentences {worker: 1 queue_milliseconds: 0.1}
    }
    """,
    pb.Translation(),
)


def exchange(answer: pb.Translation = ANSWER, contents: Sequence[str] = ("猫",), **settings: Any) -> Exchange:
    """Return an exchange about one text."""
    given: dict[str, Any] = {"model": "zh-en/2", "return_provenance": True} | settings
    request = pb.TranslateTextRequest(contents=contents, settings=pb.TranslationSettings(**given))
    sent = request.SerializeToString(deterministic=True)
    return Exchange(request=sent, translation=answer.SerializeToString(deterministic=True))


def replayed(client: Client, *exchanges: Exchange) -> list[Any]:
    return list(client.replay(Capsule(exchanges=exchanges)))


def changed(**fields: Any) -> pb.Translation:
    """Return the answer with other fields: those of its hypothesis, or of its provenance."""
    answer = pb.Translation.FromString(ANSWER.SerializeToString())
    for name, value in fields.items():
        part: Any = answer.hypotheses[0] if hasattr(answer.hypotheses[0], name) else answer.provenance
        setattr(part, name, value)
    return answer


@pytest.fixture
def answering(script: Script) -> Script:
    """Return a server that gives every text its recorded answer."""
    script.on_translate = lambda request, context: pb.TranslateTextResponse(
        translations=[ANSWER] * len(request.contents), model="zh-en", model_version="2"
    )
    script.on_stream = lambda requests, context: (
        pb.StreamTranslateTextResponse(id=each.id, translation=ANSWER) for each in requests
    )
    return script


# protobuf does not read the greatest number of 32 bits back from its JSON.
scores = st.floats(width=32, min_value=-(2.0**120), max_value=0)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), scores, st.floats(0)), min_size=1))
def test_files_keep_every_bit(tmp_path: Path, answers: list[tuple[str, float, float]]) -> None:
    kept = Capsule(
        exchanges=tuple(exchange(changed(text=text, score=score), contents=[text]) for text, score, _ in answers)
    )
    kept.write(tmp_path / "capsule.json")
    assert Capsule.read(tmp_path / "capsule.json") == kept


def test_only_the_owner_may_read_the_file_even_if_it_replaces_another(tmp_path: Path) -> None:
    (tmp_path / "capsule.json").write_text("old")
    (tmp_path / "capsule.json").chmod(0o644)
    Capsule(exchanges=(exchange(),)).write(tmp_path / "capsule.json")
    assert stat.S_IMODE((tmp_path / "capsule.json").stat().st_mode) == 0o600
    assert "texts of a user" in json.loads((tmp_path / "capsule.json").read_text())["note"]


def test_the_request_names_version_language_and_the_drawn_seed(answering: Script, client: Client) -> None:
    translations = client.translate(
        ["猫", "狗"], sampling=SamplingOptions(top_p=0.5), source_language="zh", return_provenance=True
    )
    assert answering.requests[0].settings.return_provenance
    requests = [pb.TranslateTextRequest.FromString(each.request) for each in Capsule.of(translations).exchanges]
    assert requests == [
        pb.TranslateTextRequest(
            contents=[text],
            settings=pb.TranslationSettings(
                source_language_code="zh",
                target_language_code="en",
                model="zh-en/2",
                options=pb.DecodingOptions(sampling=pb.SamplingOptions(top_p=0.5, seed=77)),
                return_provenance=True,
            ),
        )
        for text in ("猫", "狗")
    ]


def test_provenance_is_a_value_with_all_fields_of_the_wire(answering: Script, client: Client) -> None:
    provenance = client.translate_one("猫", return_provenance=True).provenance
    assert provenance is not None
    of_wire = {field.name for field in pb.Provenance.DESCRIPTOR.fields}
    assert of_wire - {"settings"} == set(provenance.__slots__) - {"target_language_code", "options"}
    assert {field.name for field in pb.SentenceProvenance.DESCRIPTOR.fields} == set(provenance.sentences[0].__slots__)
    of_options = {field.name for field in pb.DecodingOptions.DESCRIPTOR.fields} - {"target_prefix", "suppressed_texts"}
    assert of_options | {"return_alternatives", "return_scores", "token_details"} == set(provenance.options.__slots__)
    assert (provenance.kernels, provenance.sentences[0].worker) == ("avx2", 1)
    assert provenance.options.max_target_length is None
    assert provenance.options.sampling is not None
    assert provenance.options.sampling.seed == 77


def test_an_answer_without_provenance_or_cut_at_its_deadline_has_no_capsule(script: Script, client: Client) -> None:
    with pytest.raises(ValueError, match="translation 1 has no provenance: it needs return_provenance=True"):
        client.translate_one("a").capsule()
    cut = changed(finish_reason=pb.FINISH_REASON_DEADLINE)
    script.on_translate = lambda request, context: pb.TranslateTextResponse(translations=[cut])
    with pytest.raises(ValueError, match="cut at its deadline"):
        client.translate_one("a", return_provenance=True).capsule()


def test_an_equal_answer_is_identical(answering: Script, client: Client) -> None:
    [replay] = replayed(client, exchange())
    assert replay.is_identical
    assert replay.conditions == ()
    assert list(report_lines([replay])) == ["identical"]
    assert answering.requests == [pb.TranslateTextRequest.FromString(exchange().request)]


def test_progressive_answers_are_replayed_progressively(script: Script, client: Client) -> None:
    answer = changed(method="TranslateTextProgressively")
    parts = [pb.TranslateTextProgressivelyResponse(text_delta="A"), pb.TranslateTextProgressivelyResponse()]
    parts[1].translation.MergeFrom(answer)
    script.on_progressive = lambda request, context: iter(parts)
    [replay] = replayed(client, exchange(answer))
    assert replay.is_identical
    expected = pb.TranslateTextProgressivelyRequest(
        content="猫", settings=pb.TranslationSettings(model="zh-en/2", return_provenance=True)
    )
    assert script.requests == [expected]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("text", "A dog.", ("'dog.'", "'cat.'", 2)),
        ("text", "A cät.", ("'ät.'", "'at.'", 3)),
        ("text", "A cat. More.", ("' More.'", "''", 6)),
        ("token_count", 4, ("4", "3", None)),
        ("finish_reason", pb.FINISH_REASON_MAX_LENGTH, ("2", "1", None)),
        # The neighbour of -0.1 in single precision.
        ("score", -0.10000000894069672, ("-0x1.99999c0000000p-4", "-0x1.99999a0000000p-4", None)),
    ],
)
def test_differences_name_the_field_and_the_byte(
    answering: Script, client: Client, name: str, value: Any, expected: Any
) -> None:
    [replay] = replayed(client, exchange(changed(**{name: value})))
    [difference] = replay.answer
    assert difference.field == f"hypotheses[0].{name}"
    assert (difference.recorded, difference.replayed, difference.first_byte) == expected
    assert list(report_lines([replay]))[-1] == "0 of 1 answers are identical"


def test_a_hypothesis_more_is_a_difference(answering: Script, client: Client) -> None:
    answer = changed()
    answer.hypotheses.add(text="One more.")
    [replay] = replayed(client, exchange(answer))
    assert [(each.field, each.replayed) for each in replay.answer] == [("hypotheses[1].text", "unset")]


def test_the_report_says_what_was_made_differently(answering: Script, client: Client) -> None:
    other = exchange(changed(text="A dog.", kernels="generic", manifest_sha256="0000"))
    lines = list(report_lines(replayed(client, exchange(), other)))
    assert lines == [
        "text 1: identical",
        "text 2: the answer differs",
        "  hypotheses[0].text, from byte 2 on: was 'dog.', is 'cat.'",
        "made under other conditions:",
        "  provenance.manifest_sha256: was 0000, is ffff",
        "  provenance.kernels: was generic, is avx2",
        "1 of 2 answers are identical",
    ]


def test_the_way_of_an_answer_through_the_server_is_no_difference(answering: Script, client: Client) -> None:
    answer = changed(method="StreamTranslateText")
    answer.provenance.sentences[0].worker = 0
    [replay] = replayed(client, exchange(answer))
    assert (replay.answer, replay.conditions) == ((), ())


def test_a_server_that_gives_no_provenance_is_too_old_for_a_replay(client: Client) -> None:
    with pytest.raises(ServerFaultError, match="too old"):
        replayed(client, exchange())


def recorded(document: Any) -> Any:
    return document["exchanges"][0]


REQUEST, TRANSLATION = r"exchanges\[0\].request", r"exchanges\[0\].translation"
SIZES = f"exchanges must have 1 to {MAX_EXCHANGES} elements, has"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it.update(format="zip"), 'format must be "xuanzang-capsule"'),
        (lambda it: it.update(version=2), "version must be 1, is 2"),
        (lambda it: it.pop("version"), "version must be 1, is None"),
        (lambda it: it.pop("exchanges"), "exchanges must be a list"),
        (lambda it: it["exchanges"].clear(), f"{SIZES} 0"),
        (lambda it: it["exchanges"].extend(it["exchanges"] * MAX_EXCHANGES), f"{SIZES} {MAX_EXCHANGES + 1}"),
        (lambda it: it["exchanges"].append(1), r"exchanges\[1\] must have exactly the fields request and"),
        (lambda it: recorded(it).update(request=[]), f"{REQUEST} must be an object"),
        (
            lambda it: recorded(it)["request"]["settings"].update(options={"beam_size": "x"}),
            f"{REQUEST}: .*options.*beam_size",
        ),
        (lambda it: recorded(it)["request"].update(priority=1), r'request: .*no field named "priority"'),
        (
            lambda it: recorded(it)["request"].update(contents=["a", "b"]),
            f"{REQUEST}.contents must have 1 element, has 2",
        ),
        (
            lambda it: recorded(it)["request"]["settings"].update(return_provenance=False),
            f"{REQUEST}.settings.return_provenance must be true",
        ),
        (
            lambda it: recorded(it)["translation"].update(hypotheses=[]),
            f"{TRANSLATION}.hypotheses must have at least 1 element, has 0",
        ),
        (
            lambda it: recorded(it)["translation"]["provenance"].update(method="Delete"),
            f"{TRANSLATION}.provenance.method must be one of .*, is 'Delete'",
        ),
    ],
)
def test_a_bad_file_is_refused_with_the_field_and_the_limit(
    tmp_path: Path, change: Callable[[Any], object], message: str
) -> None:
    file = tmp_path / "capsule.json"
    Capsule(exchanges=(exchange(),)).write(file)
    change(document := json.loads(file.read_text()))
    file.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        Capsule.read(file)


def test_a_file_that_is_no_capsule_is_refused_by_its_name(tmp_path: Path) -> None:
    for content in (b"", b"\xff", b"[" * 100_000, b"{}", b"[1]", b'"x"', b"nul"):
        (tmp_path / "other.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"other\.json: (is no JSON|format must be)"):
            Capsule.read(tmp_path / "other.json")


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xuanzang.client._values.capsule.MAX_BYTES", 10)
    (tmp_path / "large.json").write_text(" " * 11)
    with pytest.raises(ValueError, match="must have at most 10 bytes"):
        Capsule.read(tmp_path / "large.json")


def test_provenance_is_written_as_json_if_it_is_asked_for(run: Run, answering: Script) -> None:
    code, output, _ = run("translate", "--json", "--provenance", "猫")
    assert (code, json.loads(output)["provenance"]["kernels"]) == (0, "avx2")
    assert run("translate", "--json", "猫")[0] == 0
    assert [each.settings.return_provenance for each in answering.requests] == [True, False]


def test_a_capsule_is_written_and_replayed(run: Run, answering: Script, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    assert run("translate", "--capsule", file, "猫", "狗") == (0, "A cat.\nA cat.\n", "")
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("replay", file) == (0, "text 1: identical\ntext 2: identical\nidentical\n", "")
    assert [request.settings.model for request in answering.requests[2:]] == ["zh-en/2", "zh-en/2"]


def test_a_replay_that_differs_exits_with_1(run: Run, answering: Script, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    run("translate", "--capsule", file, "a")
    file.write_text(file.read_text().replace("A cat.", "A dog."))
    code, output, errors = run("replay", file)
    assert (code, output.splitlines()[-1], errors) == (1, "0 of 1 answers are identical", "")


def test_a_bad_capsule_is_a_wrong_argument(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    code, output, errors = run("replay", tmp_path / "bad.json")
    assert (code, output) == (2, "")
    assert errors == f'xuanzang: {tmp_path}/bad.json: format must be "xuanzang-capsule"\n'


def test_a_capsule_holds_a_limited_number_of_texts(run: Run, answering: Script, tmp_path: Path) -> None:
    code, output, errors = run("translate", "--capsule", tmp_path / "answers.json", given="a\n" * 1025)
    assert code == 2
    assert output.count("\n") == 1024
    assert errors == "xuanzang: --capsule: a capsule holds at most 1024 texts\n"
    assert not (tmp_path / "answers.json").exists()
