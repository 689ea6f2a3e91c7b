"""Documents that a gateway keeps: places, ends, and what is said of failures."""

from __future__ import annotations

import asyncio

import pytest

from xuanzang.client import DocumentTranslation
from xuanzang.documents import DocumentError, DocumentSummary
from xuanzang.gateway.documents.store import DocumentState, DocumentStore, Work
from xuanzang.gateway.errors import RefusedError
from xuanzang.gateway.limits import Holder, SharedLimits
from xuanzang.gateway.settings import Settings

SUMMARY = DocumentSummary(units=1, asked=1, remembered=0, characters=1, sentences=1, refusals=())


ANN, BOB, EVE = (Holder("a", "ann"), Holder("b", "bob"), Holder("c", "eve"))


def store(*, seconds: float = 600) -> DocumentStore:
    settings = Settings(max_documents=3, max_running_documents=1, caller_share=0.5)
    return DocumentStore(SharedLimits(settings), seconds=seconds)


def work(
    content: bytes = b"cat",
    *,
    begun: asyncio.Event | None = None,
    after: asyncio.Event | None = None,
    error: Exception | None = None,
) -> Work:
    async def translate() -> DocumentTranslation:
        if begun:
            begun.set()
        if after:
            await after.wait()
        if error:
            raise error
        return DocumentTranslation(content=content, summary=SUMMARY)

    return translate


async def test_a_document_waits_for_its_turn_and_is_done() -> None:
    kept, begun, released = store(), asyncio.Event(), asyncio.Event()
    first = kept.add(work(begun=begun, after=released), holder=ANN, suffix=".txt")
    second = kept.add(work(b"dog"), holder=ANN, suffix=".txt")
    await begun.wait()
    assert (first.state, second.state) == (DocumentState.TRANSLATING, DocumentState.QUEUED)
    released.set()
    await second.settled.wait()
    assert kept.find(second.id, second.key) is second
    assert second.translation is not None
    assert second.translation.content == b"dog"
    await kept.close()


async def test_each_caller_has_places_and_all_together() -> None:
    kept = store()
    for holder in (ANN, ANN):
        kept.add(work(), holder=holder, suffix=".txt")
    for holder, message in ((ANN, "2 documents in memory of one caller"), (EVE, "3 documents in memory is")):
        with pytest.raises(RefusedError, match=message):
            kept.add(work(), holder=holder, suffix=".txt")
        if holder is ANN:
            kept.add(work(), holder=BOB, suffix=".txt")
    await kept.close()


async def test_a_translation_that_takes_too_long_is_ended_and_forgotten_when_its_time_is_over() -> None:
    kept = store(seconds=0.01)
    document = kept.add(work(after=asyncio.Event()), holder=ANN, suffix=".txt")
    await document.settled.wait()
    assert (document.state, document.reason) == (DocumentState.FAILED, "the translation took too long")
    async with asyncio.timeout(30):
        while kept.find(document.id, document.key):  # noqa: ASYNC110 - nothing else tells of it
            await asyncio.sleep(0)
    kept.require_room(ANN)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DocumentError("the document: no column 'secret'; it has: 'a'"), "no column 'secret'; it has: 'a'"),
        (KeyError("secret"), "the gateway failed"),
    ],
)
async def test_its_caller_learns_why_a_document_failed_and_no_log_does(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = store()
    document = kept.add(work(error=error), holder=ANN, suffix=".txt")
    await document.settled.wait()
    assert (document.state, document.reason) == (DocumentState.FAILED, reason)
    assert "secret" not in caplog.text
    await kept.close()


async def test_documents_that_fail_hold_no_place_and_do_not_pile_up() -> None:
    kept = store()
    failed = []
    for _ in range(10):
        failed.append(kept.add(work(error=DocumentError("no")), holder=ANN, suffix=".txt"))
        await failed[-1].settled.wait()
    assert kept.count(DocumentState.FAILED) == 3
    assert kept.find(failed[-1].id, failed[-1].key) is failed[-1]
    await kept.close()


async def test_the_end_of_the_gateway_ends_translations() -> None:
    kept, begun = store(), asyncio.Event()
    document = kept.add(work(begun=begun, after=asyncio.Event()), holder=ANN, suffix=".txt")
    await begun.wait()
    await kept.close()
    assert kept.find(document.id, document.key) is None
