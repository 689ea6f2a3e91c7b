"""Terms of a request, of a glossary of the server, and protected texts, through the client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from xuanzang.client import (
    AsyncTranslationClient,
    GlossaryOutcome,
    InvalidRequestError,
    ProtectedPattern,
    SamplingOptions,
)

if TYPE_CHECKING:
    from tests.integration.conftest import RunningServer

TEXT = "我有一只猫。"


async def test_a_term_is_kept_and_reported(client: AsyncTranslationClient) -> None:
    translation = await client.translate_one(TEXT, glossary={"猫": "tiger", "狗": "dog"})
    [match] = translation.glossary_matches
    assert "tiger" in translation.text
    assert (match.source, match.target, match.outcome) == ("猫", "tiger", GlossaryOutcome.HONOURED)
    assert TEXT[match.source_start : match.source_end] == "猫"


@pytest.mark.parametrize(
    "options",
    [
        {"num_hypotheses": 3, "beam_size": 4},
        {"return_alternatives": True, "num_hypotheses": 3},
        {"target_prefix": "they"},
        {"token_details": True, "coverage_penalty": 0.5},
        {"min_target_length": 8},
    ],
)
async def test_terms_are_kept_with_other_options(client: AsyncTranslationClient, options: dict[str, Any]) -> None:
    translation = await client.translate_one(TEXT, glossary={"猫": ["tiger", "horse"]}, **options)
    for hypothesis in translation.hypotheses:
        assert "tiger" in hypothesis.text or "horse" in hypothesis.text


async def test_no_sentence_ends_within_a_term(client: AsyncTranslationClient) -> None:
    text = "我有一只猫。好！猫。你有三只猫。"
    translation = await client.translate_one(text, glossary={"猫。好！猫": "tiger", "Ｃ＃": "horse", "C": "dog"})
    assert [(match.source, match.source_start) for match in translation.glossary_matches] == [("猫。好！猫", 4)]
    assert translation.text.count("tiger") == 1


async def test_streams_and_progressive_calls_keep_terms(client: AsyncTranslationClient) -> None:
    async for item in client.translate_stream([TEXT] * 2, glossary={"猫": "tiger"}):
        assert "tiger" in item.translation.text
    parts = [part async for part in client.translate_progressively(TEXT, glossary={"猫": "tiger"})]
    assert "tiger" in "".join(part.text_delta for part in parts)
    assert parts[-1].translation is not None
    assert parts[-1].translation.glossary_matches


async def test_a_term_that_the_vocabulary_cannot_write_is_said_and_the_others_are_kept(
    client: AsyncTranslationClient, running: RunningServer
) -> None:
    # SentencePiece takes this character for a space, so that no tokens are this text.
    unwritable = "a\u2581b"
    plain = await client.translate_one("狗和猫")
    found = await client.translate_one("狗和猫", glossary={"狗": unwritable})
    assert [match.outcome for match in found.glossary_matches] == [GlossaryOutcome.NOT_WRITABLE]
    assert [match.target for match in found.glossary_matches] == [""]
    assert found.text == plain.text
    both = await client.translate_one("狗和猫", glossary={"狗": unwritable, "猫": "tiger"})
    assert [match.outcome.name for match in both.glossary_matches] == ["NOT_WRITABLE", "HONOURED"]
    assert "tiger" in both.text
    assert (await running.scrape()).value("nmt_glossary_matches_total", outcome="not_writable") >= 2


async def test_terms_without_room_are_said(client: AsyncTranslationClient) -> None:
    translation = await client.translate_one(TEXT, glossary={"猫": "tiger tiger tiger"}, max_target_length=3)
    assert [match.outcome for match in translation.glossary_matches] == [GlossaryOutcome.NO_ROOM]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"glossary": {"猫": "tiger"}, "beam_size": 1}, "options.beam_size"),
        ({"glossary": {"猫": "tiger"}, "sampling": SamplingOptions()}, "options.sampling"),
        ({"glossary": {"猫": "tiger"}, "suppressed_texts": ["tig"]}, "options.suppressed_texts"),
        ({"glossary": {"猫": "x" * 201}}, "glossary_entries[0].targets[0]"),
        ({"glossary": {"猫": []}}, "glossary_entries[0].targets"),
        ({"glossary": {"猫" * 101: "tiger"}}, "glossary_entries[0].source"),
        ({"glossary": {f"{number}": "tiger" for number in range(1001)}}, "glossary_entries"),
        ({"glossary_name": "none"}, "glossary"),
        ({"protected_patterns": [ProtectedPattern.UNSPECIFIED]}, "protected_patterns[0]"),
    ],
)
async def test_what_cannot_work_is_refused_by_field(
    client: AsyncTranslationClient, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequestError) as error:
        await client.translate_one(TEXT, **options)
    assert field in [violation.field for violation in error.value.violations]


@pytest.fixture
def models(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Return the tiny model beside a folder of glossaries."""
    (tmp_path / "tiny").symlink_to(tiny_bundle_repository / "tiny")
    folder = tmp_path / "glossaries"
    folder.mkdir()
    for name, language in (("animals", "en"), ("german", "de")):
        head = f"# source_language: zh\n# target_language: {language}\n# version: 2\n"
        (folder / f"{name}.tsv").write_text(f"{head}猫\ttiger\n", encoding="utf-8")
    return tmp_path


async def test_glossaries_of_the_server_are_listed_kept_and_counted(models: Path, start_server: Any) -> None:
    async with start_server(models=models) as server, AsyncTranslationClient(server.address) as client:
        listed = await client.list_glossaries()
        assert [(each.name, each.version, each.entry_count) for each in listed] == [
            ("animals", "2", 1),
            ("german", "2", 1),
        ]
        assert "tiger" in (await client.translate_one(TEXT, glossary_name="animals")).text
        own = await client.translate_one(TEXT, glossary_name="animals", glossary={"猫": "horse"})
        assert [match.target for match in own.glossary_matches] == ["horse"]
        with pytest.raises(InvalidRequestError) as error:
            await client.translate_one(TEXT, glossary_name="german")
        assert error.value.violations[0].field == "glossary"
