"""Contents with tags through a real server with the bundled model, on every face."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from markup_fragments import fragment, tags, text_of
from tests.integration.conftest import StartServer, shared

from xuanzang.client import AsyncTranslationClient, InvalidRequestError


def cases(name: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


CASES = cases("markup_cases.jsonl")
PAGES = cases("markup_pages.jsonl")
# Of the translations that were read, some are left to other processors, whose sums round differently.
AS_READ = 0.9


@shared
async def client(start_server: StartServer, bundled_zh_en: Path) -> AsyncIterator[AsyncTranslationClient]:
    async with start_server(models=bundled_zh_en) as running, AsyncTranslationClient(running.address) as opened:
        yield opened


@pytest.mark.parametrize("read", [CASES, PAGES], ids=["sentences", "pages"])
async def test_85_of_100_translations_that_were_read_have_tags_around_the_right_words(
    client: AsyncTranslationClient, read: list[dict[str, Any]]
) -> None:
    translations = await client.translate([case["source"] for case in read], content_format="html", timeout=120)
    assert len(read) == 100
    assert all(tags(each.text) == tags(case["source"]) for each, case in zip(translations, read, strict=True))
    as_read = [case for each, case in zip(translations, read, strict=True) if each.text == case["translation"]]
    assert len(as_read) >= AS_READ * len(read)
    assert sum(case["right"] for case in as_read) >= 85


async def test_tags_change_nothing_of_the_translation(client: AsyncTranslationClient) -> None:
    sources = [case["source"] for case in CASES if "code" not in case["source"] and "translate=" not in case["source"]]
    written = await client.translate(sources, content_format="html", timeout=120)
    plain = await client.translate([text_of(source) for source in sources], timeout=120)
    assert [text_of(each.text) for each in written] == [each.text for each in plain]


async def test_every_face_writes_the_same_markup(client: AsyncTranslationClient) -> None:
    content = "<p>我有<b>一只猫</b>。<!-- x --></p>\n<ul><li>请用 <code>f(x)</code> 函数</ul>"
    unary = (await client.translate_one(content, content_format="html")).text
    assert tags(unary) == tags(content)
    [streamed] = [item.translation async for item in client.translate_stream([content], content_format="html")]
    *_, last = parts = [part async for part in client.translate_progressively(content, content_format="html")]
    assert last.translation
    assert streamed.text == last.translation.text == "".join(part.text_delta for part in parts) == unary
    several = await client.translate_one("<p>我有<b>一只猫</b>。</p>", content_format="html", num_hypotheses=3)
    assert len({each.text for each in several.hypotheses}) == 3
    assert all(tags(each.text) == tags("<p><b></b></p>") for each in several.hypotheses)


async def test_generated_fragments_keep_their_tags_and_stay_well_formed(client: AsyncTranslationClient) -> None:
    contents = [fragment(seed, with_islands=True) for seed in range(60)]
    translations = await client.translate(contents, content_format="xml", beam_size=1, timeout=120)
    for content, translation in zip(contents, translations, strict=True):
        assert tags(translation.text) == tags(content)
        text_of(translation.text)


async def test_parts_of_words_and_white_space_at_the_ends_keep_their_tags(client: AsyncTranslationClient) -> None:
    for content, expected in (
        ("水的化学式是H<sub>2</sub>O。", "H<sub>2</sub>O"),
        ('<label><input/> 我同意<a href="/t">服务条款</a> </label>', "<label><input/> I"),
    ):
        text = (await client.translate_one(content, content_format="html")).text
        assert expected in text
        assert tags(text) == tags(content)
        assert content.startswith("水") or text.endswith(" </label>")


async def test_terms_are_found_under_tags_and_take_these_along(client: AsyncTranslationClient) -> None:
    content = "<p>你好。</p>\n<p>&lt;我们&gt;的<b>产品</b>很好，<i>产</i>品<code>产品</code></p>"
    found = await client.translate_one(content, content_format="html", glossary={"产品": "gadget"})
    assert "<b>gadget</b>" in found.text
    assert tags(found.text) == tags(content)
    places = [content[match.source_start : match.source_end] for match in found.glossary_matches]
    assert places == ["产品", "产</i>品"]
    assert [(match.source, match.target) for match in found.glossary_matches] == [("产品", "gadget")] * 2


async def test_what_cannot_be_read_is_refused_by_field(client: AsyncTranslationClient) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await client.translate(["<b>好</b>", "<b>好"], content_format="xml")
    assert [fault.field for fault in caught.value.violations] == ["contents[1]"]
    with pytest.raises(InvalidRequestError, match="content_format") as caught:
        await client.translate_one("<b>好</b>", content_format="html", token_details=True)
    assert [fault.field for fault in caught.value.violations] == ["token_details"]
