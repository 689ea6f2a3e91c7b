"""Documents through both clients and a scripted server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.conftest import Client, Script, offer, refuse_texts

from xuanzang.client import InvalidRequestError, ServerFaultError
from xuanzang.documents import DocumentError, DocumentSummary, Refusal, TranslationMemory
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.fixture
def translate(client: Client, script: Script) -> Any:
    """Return `translate_document` of each client in turn; the server offers a model."""
    offer(script)
    return client.translate_document


def asked(script: Script) -> list[str]:
    """Return the texts that the server was asked for since the last call."""
    found = [request.content for request in script.requests if isinstance(request, pb.StreamTranslateTextRequest)]
    script.requests.clear()
    return sorted(found)


def test_equal_texts_are_asked_once_and_all_are_counted(translate: Any, script: Script, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n  one\n\n3\n")
    seen: list[tuple[int, int]] = []
    result = translate(path, on_progress=lambda done, total: seen.append((done, total)))
    assert result.content == b"ONE\nTWO\n  ONE\n\n3\n"
    assert result.summary == DocumentSummary(units=3, asked=2, remembered=0, characters=6, sentences=0, refusals=())
    assert asked(script) == ["one", "two"]
    assert (seen[0], seen[-1], len(seen)) == ((0, 3), (3, 3), 3)


def test_sentences_are_those_that_the_server_counts(translate: Any, script: Script) -> None:
    stream = script.on_stream

    def counting(requests: Any, context: Any) -> Any:
        context.set_trailing_metadata((("x-usage-characters", "3"), ("x-usage-sentences", "7")))
        return stream(requests, context)

    script.on_stream = counting
    assert translate(b"one", suffix=".txt").summary.sentences == 7


def test_a_document_without_texts_asks_nothing_and_has_its_options_checked(translate: Any, script: Script) -> None:
    assert translate(b"1\n", suffix=".txt").content == b"1\n"
    assert asked(script) == []
    with pytest.raises(ValueError, match="timeout"):
        translate(b"1\n", suffix=".txt", timeout=-1)
    with pytest.raises((TypeError, ValueError), match="beam"):
        translate(b"1\n", suffix=".txt", beam="wide")


def test_a_changed_document_asks_only_for_what_changed(translate: Any, script: Script, tmp_path: Path) -> None:
    with TranslationMemory(tmp_path / "memory") as memory:
        first = translate(b'{"a": "one", "b": "two"}', suffix=".json", memory=memory)
        assert asked(script) == ["one", "two"]
        second = translate(b'{"a": "one", "c": "three", "b": "two!"}', suffix=".json", memory=memory)
        assert asked(script) == ["three", "two!"]
        assert (first.summary.remembered, second.summary.remembered) == (0, 1)
        assert second.content == b'{"a": "ONE", "c": "THREE", "b": "TWO!"}'
        translate(b'["one"]', suffix=".json", memory=memory, beam_size=2)
        offer(script, "bb")
        translate(b'["one"]', suffix=".json", memory=memory)
        assert asked(script) == ["one", "one"]


def test_an_answer_of_a_model_that_was_not_listed_is_not_kept(translate: Any, script: Script, tmp_path: Path) -> None:
    script.models.models[0].version = "2"
    with TranslationMemory(tmp_path / "memory") as memory:
        translate(b"one", suffix=".txt", memory=memory)
        assert memory.is_empty()


def test_what_was_translated_before_a_failure_is_not_asked_again(
    translate: Any, script: Script, tmp_path: Path
) -> None:
    whole = script.on_stream
    refuse_texts(script, status_pb2.Status(code=13, message="broken"), "line 9")
    lines = "".join(f"line {number}\n" for number in range(10)).encode()
    with TranslationMemory(tmp_path / "memory") as memory:
        with pytest.raises(ServerFaultError, match="broken"):
            translate(lines, suffix=".txt", memory=memory)
        asked(script)
        script.on_stream = whole
        assert translate(lines, suffix=".txt", memory=memory).content == lines.upper()
        assert asked(script) == ["line 9"]


def test_a_text_that_is_refused_or_that_no_request_can_hold_stays_and_is_named(translate: Any, script: Script) -> None:
    refuse_texts(script, status_pb2.Status(code=3, message="content is too long"), "two")
    result = translate(b"a\ntwo\nb", suffix=".txt")
    assert result.content == b"A\ntwo\nB"
    assert result.summary.refusals == (Refusal(where="line 2", message="content is too long"),)
    result = translate(b'["a", "b\\ud800"]', suffix=".json")
    assert result.content == b'["A", "b\\ud800"]'
    assert [refusal.where for refusal in result.summary.refusals] == ["line 1"]


def test_options_that_are_wrong_for_all_texts_are_an_error(translate: Any, script: Script) -> None:
    violation = status_pb2.BadRequest.FieldViolation(field="options.beam_size", description="at most 16")
    status = status_pb2.Status(code=3, message="options.beam_size at most 16")
    detail = status.details.add()
    detail.type_url = "type.googleapis.com/google.rpc.BadRequest"
    detail.value = status_pb2.BadRequest(field_violations=[violation]).SerializeToString()
    refuse_texts(script, status, "a", "b")
    with pytest.raises(InvalidRequestError, match="beam_size"):
        translate(b"a\nb\n", suffix=".txt")


def test_a_text_that_may_succeed_later_is_asked_once_more(translate: Any, script: Script) -> None:
    refuse_texts(script, status_pb2.Status(code=14, message="not now"), "b")
    assert translate(b"a\nb\n", suffix=".txt").content == b"A\nB\n"


def test_a_text_whose_translation_lost_a_placeholder_stays_and_is_named(translate: Any, script: Script) -> None:
    asked: list[list[int]] = []

    def lose(requests: Iterable[pb.StreamTranslateTextRequest], _: object) -> Iterator[pb.StreamTranslateTextResponse]:
        for request in requests:
            asked.append(list(request.settings.placeholders))
            hypothesis = pb.Hypothesis(text=request.content, finish_reason=pb.FINISH_REASON_PLACEHOLDER_LOST)
            hypothesis.lost_placeholders.append("{n}")
            yield pb.StreamTranslateTextResponse(id=request.id, translation=pb.Translation(hypotheses=[hypothesis]))

    script.on_stream = lose
    result = translate(b'{"a": "you have {n} %(kind)s"}', suffix=".json")
    assert result.content == b'{"a": "you have {n} %(kind)s"}'
    assert [refusal.message for refusal in result.summary.refusals] == ["the translation lost the placeholder {n}"]
    assert pb.PLACEHOLDER_FAMILY_BRACES in asked[0]


def test_a_translation_without_a_tag_of_its_text_is_refused(translate: Any, script: Script) -> None:
    result = translate(b"a **b**\n\nc\n", suffix=".md")  # upper case, tags as well
    assert result.content == b"a **b**\n\nC\n"
    assert [refusal.message for refusal in result.summary.refusals] == ["the translation lost or doubled a tag"]
    formats = {one.settings.content_format for one in script.requests if isinstance(one, pb.StreamTranslateTextRequest)}
    assert pb.CONTENT_FORMAT_HTML in formats


def test_an_empty_translation_is_refused(translate: Any, script: Script) -> None:
    script.on_stream = lambda requests, _: (
        pb.StreamTranslateTextResponse(
            id=request.id, translation=pb.Translation(hypotheses=[pb.Hypothesis()]), model="zh-en", model_version="1"
        )
        for request in requests
    )
    result = translate(b"a", suffix=".txt")
    assert (result.content, result.summary.refusals[0].message) == (b"a", "the translation is empty")


def test_faults_of_a_file_name_it(translate: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{")
    with pytest.raises(DocumentError, match=r"bad\.json: not JSON"):
        translate(path)
    with pytest.raises(DocumentError, match=r"the document: cp1252 has no U\+039C"):
        translate("\xb5".encode("latin-1"), suffix=".txt", encoding="latin-1")  # its upper case is Greek


def test_the_result_is_written_beside_and_moved(translate: Any, tmp_path: Path) -> None:
    result = translate(b"a", suffix=".txt")
    (tmp_path / "out").write_text("old")
    result.write(tmp_path / "out")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"A")]
