"""Placeholders through a real server with the bundled models: documents, streams, and the memory of translations."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

from placeholder_kinds import CHINESE, KINDS, is_kept
from tests.integration.conftest import BUNDLED, StartServer, shared

from xuanzang.client import AsyncTranslationClient, FinishReason
from xuanzang.documents import TranslationMemory


@shared
async def client(start_server: StartServer) -> AsyncIterator[AsyncTranslationClient]:
    async with start_server(models=BUNDLED) as running, AsyncTranslationClient(running.address) as opened:
        yield opened


async def test_a_file_of_json_keeps_every_kind(client: AsyncTranslationClient, tmp_path: Path) -> None:
    rng = random.Random(11)
    cases = [(kind, rng.choice(CHINESE).replace("{}", kind)) for kind in KINDS]
    raw = json.dumps([text for _, text in cases]).encode()
    with TranslationMemory(tmp_path / "memory") as memory:
        for _ in range(2):
            found = await client.translate_document(
                raw, suffix=".json", source_language="zh", target_language="en", memory=memory
            )
            written = zip(cases, json.loads(found.content), strict=True)
            assert [(text, now) for (kind, text), now in written if not is_kept(kind, text, now)] == []
            assert len(found.summary.refusals) <= 0.03 * len(cases)
    assert found.summary.remembered > 0


async def test_a_stream_says_which_placeholder_was_lost(client: AsyncTranslationClient) -> None:
    texts = ["Your password was changed by %s on %d.", "{name} is here.", "1 2 3"]
    results = {
        item.source: item.translation.hypotheses[0]
        async for item in client.translate_stream(
            texts, source_language="en", target_language="zh", placeholders=["printf", "braces"]
        )
    }
    assert "{name}" in results[texts[1]].text
    assert (results["1 2 3"].text, results["1 2 3"].finish_reason) == ("1 2 3", FinishReason.COPIED)
    first = results[texts[0]]
    if first.finish_reason is FinishReason.PLACEHOLDER_LOST:
        assert (first.text, first.lost_placeholders) == (texts[0], ("%d",))
