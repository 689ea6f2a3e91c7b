"""The translation of a document by any translator, without a server."""

from __future__ import annotations

import doctest
from pathlib import Path

import xuanzang.documents
from xuanzang.documents import Answer, Copied, DocumentFile, DocumentSummary, Job, Refusal, TranslationMemory

FILE = DocumentFile.of(b'["one", "two {n}", "one", "three", "four", "5"]', suffix=".json")


def key(text: str) -> bytes:
    return text.encode()


def test_the_example_of_the_package_gives_what_it_says() -> None:
    assert doctest.testmod(xuanzang.documents) == doctest.TestResults(failed=0, attempted=4)


def test_equal_texts_are_pending_once_and_every_answer_is_counted() -> None:
    seen: list[tuple[int, int]] = []
    job = Job(FILE.texts(), on_progress=lambda done, total: seen.append((done, total)))
    assert job.pending == ["one", "two {n}", "three", "four"]
    job.record("one", Answer(translation="ONE"))
    job.record("two {n}", Answer(translation="two {n}", lost_placeholders=("{n}",)))
    job.record("three", Answer(refusal="too long"))
    job.record("four", Answer(translation="four", copied=Copied.IN_TARGET_LANGUAGE))
    found = job.finish(sentences=4)
    assert found.translations == {"one": "ONE", "four": "four"}
    lost = Refusal(where="line 1", message="the translation lost the placeholder {n}")
    assert found.summary == DocumentSummary(
        units=5,
        asked=4,
        remembered=0,
        characters=19,
        sentences=4,
        refusals=(lost, Refusal(where="line 1", message="too long")),
        copied=1,
        in_target_language=1,
    )
    assert seen == [(0, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert FILE.written(found.translations) == b'["ONE", "two {n}", "ONE", "three", "four", "5"]'


def test_only_answers_that_may_be_kept_are_found_by_the_next_job(tmp_path: Path) -> None:
    with TranslationMemory(tmp_path / "memory") as memory:
        job = Job(FILE.texts(), memory=memory, key=key)
        job.record("one", Answer(translation="ONE"))
        job.record("three", Answer(translation="THREE", may_be_kept=False))
        assert job.has_unsaved
        job.save()
        assert not job.has_unsaved
        assert Job(FILE.texts(), memory=memory, key=key).pending == ["two {n}", "three", "four"]
        assert Job(FILE.texts(), memory=memory).pending == job.pending


def test_a_remembered_translation_is_checked_as_a_new_one_is(tmp_path: Path) -> None:
    free = DocumentFile.of(b'["%s in %d"]', suffix=".json")
    ordered = DocumentFile.of(b'#, python-format\nmsgid "%s in %d"\nmsgstr ""\n', suffix=".po")
    with TranslationMemory(tmp_path / "memory") as memory:
        job = Job(free.texts(), memory=memory, key=key)
        job.record("%s in %d", Answer(translation="%d %s"))
        job.save()
        assert Job(free.texts(), memory=memory, key=key).pending == []
        assert Job(ordered.texts(), memory=memory, key=key).pending == ["%s in %d"]
