"""Documents that a gateway keeps: places, ends, and what is said of failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from xuanzang.client.documents import DocumentError, DocumentSummary, DocumentTranslation
from xuanzang.gateway.documents.store import DocumentLimits, DocumentState, DocumentStore, Work
from xuanzang.gateway.errors import RefusedError

SUMMARY = DocumentSummary(units=1, asked=1, remembered=0, characters=1, sentences=1, refusals=())


def limits(**changed: Any) -> DocumentLimits:
    return DocumentLimits(**{"documents": 3, "of_caller": 2, "running": 1, "seconds": 600.0, **changed})


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
    kept, begun, released = DocumentStore(limits()), asyncio.Event(), asyncio.Event()
    first = kept.add(work(begun=begun, after=released), owner="ann", suffix=".txt")
    second = kept.add(work(b"dog"), owner="ann", suffix=".txt")
    await begun.wait()
    assert (first.state, second.state) == (DocumentState.TRANSLATING, DocumentState.QUEUED)
    released.set()
    await second.settled.wait()
    assert kept.find(second.id, second.key) is second
    assert second.translation is not None
    assert second.translation.content == b"dog"
    await kept.close()


async def test_each_caller_has_places_and_all_together() -> None:
    kept = DocumentStore(limits())
    for owner in ("ann", "ann", "bob"):
        kept.add(work(), owner=owner, suffix=".txt")
    for owner, message in (("ann", "2 documents of this caller"), ("eve", "3 documents are kept")):
        with pytest.raises(RefusedError, match=message):
            kept.add(work(), owner=owner, suffix=".txt")
    await kept.close()


async def test_a_document_is_forgotten_when_its_time_is_over() -> None:
    kept = DocumentStore(limits(seconds=0.01))
    document = kept.add(work(), owner="ann", suffix=".txt")
    await document.settled.wait()
    async with asyncio.timeout(30):
        while kept.find(document.id, document.key):  # noqa: ASYNC110 - nothing else tells of it
            await asyncio.sleep(0)
    kept.require_room("ann")


async def test_a_translation_that_takes_too_long_is_ended() -> None:
    kept = DocumentStore(limits(seconds=0.01))
    document = kept.add(work(after=asyncio.Event()), owner="ann", suffix=".txt")
    await document.settled.wait()
    assert (document.state, document.reason) == (DocumentState.FAILED, "the translation took too long")
    await kept.close()


@pytest.mark.parametrize("error", [DocumentError("line 3: secret"), KeyError("secret")])
async def test_reasons_hold_nothing_of_the_document(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    kept = DocumentStore(limits())
    document = kept.add(work(error=error), owner="ann", suffix=".txt")
    await document.settled.wait()
    assert document.state is DocumentState.FAILED
    assert document.reason
    assert "secret" not in document.reason + caplog.text
    await kept.close()


async def test_the_end_of_the_gateway_ends_translations() -> None:
    kept, begun = DocumentStore(limits()), asyncio.Event()
    document = kept.add(work(begun=begun, after=asyncio.Event()), owner="ann", suffix=".txt")
    await begun.wait()
    await kept.close()
    assert kept.find(document.id, document.key) is None
