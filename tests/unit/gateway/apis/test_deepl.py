"""DeepL's own client, unmodified, in front of a server that stands in."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from typing import Any

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from gateways import RunningGateway
from stand_in_server import StandIn

BEAM = {"en": "proton beam", "de": "Protonenstrahl", "fr": "faisceau de protons"}
Entries = MultilingualGlossaryDictionaryEntries


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(sources=tuple(BEAM), targets=tuple(BEAM), phrases=[BEAM])


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[deepl.DeepLClient]:
    made = deepl.DeepLClient("key", server_url=gateway.url, send_platform_info=False)
    yield made
    made.close()  # type: ignore[no-untyped-call]


def translated(client: deepl.DeepLClient, text: str = BEAM["en"], **options: Any) -> str:
    given = {"source_lang": "EN", "target_lang": "DE"} | options
    found = client.translate_text(text, **given)
    assert isinstance(found, deepl.TextResult)
    return found.text


# Beside those with enumerated values.
TAKEN: list[dict[str, Any]] = [
    {"source_lang": "auto"},
    {"context": ""},
    {"tag_handling": "xml", "splitting_tags": ["par"], "non_splitting_tags": "b,i"},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"splitting_tags": ["par"], "tag_handling": "xml", "text": "<d>a <par>b</par></d>"}, "splitting_tags"),
    ({"non_splitting_tags": ["par"], "tag_handling": "xml", "text": "<d><par>a b</par></d>"}, "non_splitting_tags"),
    ({"source_lang": "XX"}, "source_lang: 'XX' is not supported"),
    ({"target_lang": "XX"}, "target_lang: 'XX' is not supported"),
]


async def test_options_that_change_nothing_here_are_taken(client: deepl.DeepLClient) -> None:
    for options in TAKEN:
        assert await asyncio.to_thread(translated, client, **options) == BEAM["de"]


async def test_options_and_languages_that_nobody_can_honour_are_refused_by_name(client: deepl.DeepLClient) -> None:
    for options, message in REFUSED:
        with pytest.raises(deepl.DeepLException, match=message):
            await asyncio.to_thread(translated, client, **options)


async def test_a_header_names_what_has_no_effect(gateway: RunningGateway) -> None:
    for given, named in (
        ({"formality": "more"}, "formality"),
        ({"formality": "default", "model_type": "prefer_quality_optimized", "split_sentences": "0"}, None),
        ({"context": "physics"}, "context"),
        ({"model_type": "quality_optimized", "context": "physics"}, "context, model_type"),
        ({"tag_handling": "xml", "outline_detection": "0"}, "outline_detection"),
        ({"some_new_option": "1"}, "some_new_option"),
        ({"ä": "1", "a b": "1"}, "..."),
    ):
        answer = await gateway.post("/v2/translate", json={"text": [BEAM["en"]], "target_lang": "DE"} | given)
        assert (answer.status, answer.headers.get("x-ignored-parameters")) == (200, named)


async def test_what_would_change_a_translation_is_refused_by_name(gateway: RunningGateway) -> None:
    for name in ("custom_instructions", "glossary_ids", "style_id", "translation_memory_id"):
        answer = await gateway.post("/v2/translate", json={"text": ["a"], "target_lang": "DE", name: "x"})
        assert (answer.status, name in answer.json["message"]) == (400, True)


async def test_ignored_tags_are_marked_for_the_server_and_come_back_as_they_were(
    client: deepl.DeepLClient, server: StandIn
) -> None:
    text = '<p>proton beam <keep a="1">proton beam</keep> <keeper>x</keeper></p>'
    found = await asyncio.to_thread(translated, client, text, tag_handling="xml", ignore_tags=["keep"])
    assert '<keep translate="no"' in server.asked[-1].contents[0]
    assert "<keeper translate" not in server.asked[-1].contents[0]
    assert found == text.replace(BEAM["en"], BEAM["de"])


async def test_placeholders_are_named_by_an_addition_of_the_gateway(gateway: RunningGateway, server: StandIn) -> None:
    body = {"text": [BEAM["en"]], "source_lang": "EN", "target_lang": "DE"}
    answer = await gateway.post("/v2/translate", json=body | {"placeholders": "printf,braces"})
    assert answer.status == 200, answer.body
    assert list(server.asked[-1].settings.placeholders) == [1, 2]
    refused = await gateway.post("/v2/translate", json=body | {"placeholders": "other"})
    assert (refused.status, "placeholders" in refused.json["message"]) == (400, True)


def characters(usage: deepl.Usage) -> int:
    assert usage.character.count is not None
    return usage.character.count


async def test_usage_counts_what_was_translated_and_names_a_limit(client: deepl.DeepLClient) -> None:
    before = await asyncio.to_thread(client.get_usage)
    await asyncio.to_thread(translated, client)
    usage = await asyncio.to_thread(client.get_usage)
    assert characters(usage) - characters(before) == len(BEAM["en"])
    assert not usage.any_limit_reached


def use_glossaries(client: deepl.DeepLClient) -> None:
    name = "Meine Begriffe: alle, 日本 (2026)"
    made = client.create_multilingual_glossary(
        name, [Entries("EN", "DE", {"beam": "Balken"}), Entries("EN", "FR", {"beam": "poutre"})]
    )
    assert made.name == name
    assert client.get_multilingual_glossary(made.glossary_id).name == name
    assert [each.glossary_id for each in client.list_multilingual_glossaries()] == [made.glossary_id]
    assert {(each.target_lang, each.entry_count) for each in made.dictionaries} == {("DE", 1), ("FR", 1)}
    assert translated(client, "a beam", glossary=made) == "a Balken"
    assert translated(client, "a beam", target_lang="FR", glossary=made) == "a poutre"
    client.update_multilingual_glossary_dictionary(made, Entries("EN", "DE", {"wave": "Welle"}))
    (held,) = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert str(held.entries) == "beam\tBalken\nwave\tWelle"
    replaced = client.replace_multilingual_glossary_dictionary(made, Entries("EN", "FR", {"wave": "onde"}))
    assert replaced.entry_count == 1
    client.replace_multilingual_glossary_dictionary(made, Entries("DE", "EN", {"Balken": "beam"}))
    renamed = client.update_multilingual_glossary_name(made, "Terms")
    assert (renamed.name, len(renamed.dictionaries)) == ("Terms", 3)
    client.delete_multilingual_glossary_dictionary(made, renamed.dictionaries[0])
    assert len(client.get_multilingual_glossary(made.glossary_id).dictionaries) == 2
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)


async def test_multilingual_glossaries_are_made_used_changed_and_deleted(client: deepl.DeepLClient) -> None:
    await asyncio.to_thread(use_glossaries, client)


def document(client: deepl.DeepLClient, text: str, **options: Any) -> bytes:
    output = io.BytesIO()
    client.translate_document(text.encode(), output, filename="a.txt", target_lang="DE", **options)
    return output.getvalue()


async def test_a_document_in_the_target_language_fails_as_at_deepl(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DocumentTranslationException, match="Source and target language are equal") as failure:
        await asyncio.to_thread(document, client, f"{BEAM['de']}\n")
    assert re.search("ID: [0-9A-F]{32}, key: [0-9A-F]{64}", str(failure.value))


async def test_a_document_is_translated_if_a_part_of_it_is_in_the_target_language(client: deepl.DeepLClient) -> None:
    text = f"{BEAM['de']}\n{BEAM['en']}\n"
    before = await asyncio.to_thread(client.get_usage)
    assert (await asyncio.to_thread(document, client, text)).decode() == text.replace(BEAM["en"], BEAM["de"])
    usage = await asyncio.to_thread(client.get_usage)
    assert characters(usage) - characters(before) == len(BEAM["de"]) + len(BEAM["en"])
