"""Documents through a real server."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from document_texts import word, word_body
from office_documents import FORMATS

from xuanzang.client import AsyncTranslationClient
from xuanzang.documents import TranslationMemory

if TYPE_CHECKING:
    from tests.integration.conftest import RunningServer

CAT, DOG, FISH = "我有一只猫。", "你有十只狗。", "他们有十只狗。"
MARKDOWN = f"# {CAT}\n\n- {DOG}\n- `code`\n\n```\n{FISH}\n```\n"
WORD = (
    f"<w:p><w:r><w:t>{CAT[:3]}</w:t></w:r><w:r><w:t>{CAT[3:]}</w:t></w:r></w:p><w:p><w:r><w:t>{DOG}</w:t></w:r></w:p>"
)


async def test_texts_get_the_translations_that_they_get_alone(client: AsyncTranslationClient) -> None:
    cat, dog = [each.text for each in await client.translate([CAT, DOG])]
    found = await client.translate_document(MARKDOWN.encode(), suffix=".md")
    assert found.summary.refusals == ()
    assert found.content.decode() == MARKDOWN.replace(CAT, cat).replace(DOG, dog)
    body = word_body((await client.translate_document(word(WORD), suffix=".docx")).content)
    assert [unescape(text) for text in re.findall("<w:t[^>]*>([^<]+)", body)] == [cat, dog]
    values = await client.translate_document(json.dumps({"a": CAT, "b": [DOG, 1]}).encode(), suffix=".json")
    assert json.loads(values.content) == {"a": cat, "b": [dog, 1]}


@pytest.mark.parametrize("suffix", FORMATS)
async def test_office_documents_come_back_as_their_libraries_read_them(
    client: AsyncTranslationClient, suffix: str
) -> None:
    make, read_again = FORMATS[suffix]
    raw = make([[(text, True, False)] for text in (CAT, DOG, FISH)])
    found = await client.translate_document(raw, suffix=suffix)
    assert found.summary.refusals == ()
    rows = [
        ("".join(each for each, *_ in row).strip(), any(bold for _, bold, _ in row))
        for row in read_again(found.content)
    ]
    expected = {each.text for each in await client.translate([CAT, DOG, FISH])}
    assert expected <= {text for text, is_bold in rows if is_bold or suffix == ".xlsx"}


async def test_markup_goes_around_the_words_that_it_was_around(client: AsyncTranslationClient) -> None:
    inner = CAT[2:-1]
    html = await client.translate_one(f'{CAT[:2]}<g id="1">{inner}</g>。', content_format="html")
    for suffix, form in ((".md", "**{}**"), (".html", '<b class="x">{}</b>')):
        before, _, after = form.partition("{}")
        expected = html.text.replace('<g id="1">', before).replace("</g>", after)
        source = f"{CAT[:2]}{form.format(inner)}。"
        found = await client.translate_document(source.encode(), suffix=suffix, token_details=True)
        assert found.summary.refusals == ()
        assert found.content.decode() == expected


async def test_a_second_run_asks_the_server_only_for_what_changed(
    client: AsyncTranslationClient, running: RunningServer, tmp_path: Path
) -> None:
    with TranslationMemory(tmp_path / "memory") as memory:
        first = await client.translate_document(MARKDOWN.encode(), suffix=".md", memory=memory)
        before = (await running.scrape()).value("nmt_sentences_total")
        changed = MARKDOWN.replace(DOG, FISH).encode()
        second = await client.translate_document(changed, suffix=".md", memory=memory)
        after = (await running.scrape()).value("nmt_sentences_total")
    assert (first.summary.asked, first.summary.sentences) == (2, 2)
    assert (second.summary.asked, second.summary.remembered, second.summary.sentences) == (1, 1, 1)
    assert after - before == 1
