"""Two models served together, one of which has two target languages and vocabularies apart from SentencePiece."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from xuanzang.client import (
    AsyncTranslationClient,
    FinishReason,
    InvalidRequestError,
    ModelNotFoundError,
    UnservedLanguageError,
)
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.search import beam_search

SENTENCES = ("我有两只马。", "我有六只猫。", "我有两只虎。")
PREFIX_IDS = {"en": 20, "fr": 30}
# Long enough that the translations of random weights differ between sentences.
OPTIONS: dict[str, Any] = {"beam_size": 3, "length_penalty": 0.6, "min_target_length": 8, "max_target_length": 24}


class Oracle:
    """The tiny model in torch, with a language token before each sentence."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def source_ids(self, sentence: str, language: str) -> list[int]:
        return [PREFIX_IDS[language], *self._checkpoint.source_tokenizer.encode(sentence)]

    def target_ids(
        self, source_ids: list[int], *, beam_size: int, length_penalty: float, minimum: int, limit: int
    ) -> list[int]:
        source = torch.tensor([source_ids])
        [[best]] = beam_search(
            self._checkpoint.model,
            source,
            torch.ones_like(source, dtype=torch.bool),
            beam_size=beam_size,
            length_penalty=length_penalty,
            min_target_length=minimum,
            max_target_length=limit,
        )
        return best.target_ids

    def translate(self, sentence: str, language: str) -> str:
        ids = self.target_ids(self.source_ids(sentence, language), beam_size=3, length_penalty=0.6, minimum=8, limit=24)
        # The server leaves out bytes that form no character.
        return self._checkpoint.target_tokenizer.decode(ids).replace("\ufffd", "").strip()


@pytest.fixture(scope="module")
def oracle(tiny_checkpoint: Path) -> Oracle:
    return Oracle(load_checkpoint(tiny_checkpoint))


@pytest.fixture(scope="module")
def repository(tiny_bundle_repository: Path, oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with "tiny", zh to en, and "many", the same weights, ja to en and fr."""
    root = Path(shutil.copytree(tiny_bundle_repository, tmp_path_factory.mktemp("two"), dirs_exist_ok=True))
    folder = Path(shutil.copytree(root / "tiny" / "1", root / "many" / "1"))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"model": "many", "source_language_codes": ["ja"], "target_language_codes": list(PREFIX_IDS)}
    manifest["source_format"]["language_prefix_ids"] = PREFIX_IDS
    for side, unknown in (("source", "source_unk_id"), ("target", "unk_id")):
        processor = SentencePieceProcessor(model_file=str(folder / manifest[f"{side}_tokenizer"]))
        pieces = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
        (folder / f"{side}.vocab.json").write_text(json.dumps(pieces))
        manifest[f"{side}_vocabulary"] = f"{side}.vocab.json"
        manifest["special_ids"][unknown] = processor.unk_id()
    defaults = manifest["generation_defaults"]
    samples = [sample(oracle, sentence, language, defaults) for sentence in SENTENCES for language in PREFIX_IDS]
    (folder / "certificate.json").write_text(json.dumps({"samples": samples}))
    manifest["files"] = [listed(path) for path in folder.iterdir() if path.name != "manifest.json"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return root


def sample(oracle: Oracle, sentence: str, language: str, defaults: dict[str, float]) -> dict[str, Any]:
    ids = oracle.source_ids(sentence, language)
    limit = int(defaults["max_length_factor"] * len(ids) + defaults["max_length_offset"])
    found = oracle.target_ids(ids, beam_size=4, length_penalty=1.0, minimum=0, limit=limit)
    return {"source": sentence, "source_ids": ids, "target_ids": found, "beam_size": 4, "length_penalty": 1.0}


def listed(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"name": path.name, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}


@pytest.fixture
async def client(start_server: Any, repository: Path) -> AsyncIterator[AsyncTranslationClient]:
    async with start_server(models=repository) as running, AsyncTranslationClient(running.address) as client:
        yield client


async def test_the_models_are_listed_with_their_pairs(client: AsyncTranslationClient) -> None:
    pairs = {model.name: (model.source_languages, model.target_languages) for model in await client.list_models()}
    assert pairs == {"many": (("ja",), ("en", "fr")), "tiny": (("zh",), ("en",))}


async def test_the_target_language_selects_the_language_token(client: AsyncTranslationClient, oracle: Oracle) -> None:
    texts = {}
    for language in PREFIX_IDS:
        pair: dict[str, Any] = {"source_language": "ja", "target_language": language}
        found = await client.translate(SENTENCES, **pair, **OPTIONS)
        assert {translation.model for translation in found} == {"many"}
        texts[language] = [translation.text for translation in found]
        assert texts[language] == [oracle.translate(sentence, language) for sentence in SENTENCES]
        streamed = [each async for each in client.translate_stream(SENTENCES, model="many", **pair, **OPTIONS)]
        assert {each.index: each.translation.text for each in streamed} == dict(enumerate(texts[language]))
        parts = [part async for part in client.translate_progressively(SENTENCES[0], **pair, **OPTIONS)]
        assert "".join(part.text_delta for part in parts) == texts[language][0]
    assert len({text for of_language in texts.values() for text in of_language}) == 2 * len(SENTENCES)


async def test_token_details_leave_out_the_language_token(client: AsyncTranslationClient) -> None:
    [translation] = await client.translate(
        SENTENCES[:1], model="many", source_language="ja", target_language="fr", token_details=True, **OPTIONS
    )
    tokens = translation.hypotheses[0].tokens
    assert "".join(token.text for token in tokens) == translation.text
    assert all(0 <= token.source_start <= token.source_end <= len(SENTENCES[0]) for token in tokens)


async def test_requests_find_their_model_by_pair_and_by_name(client: AsyncTranslationClient) -> None:
    by_pair = await client.translate_one(SENTENCES[0], source_language="zh-CN", target_language="en-GB", **OPTIONS)
    by_name = await client.translate_one(SENTENCES[0], model="tiny", **OPTIONS)
    assert (by_pair.model, by_pair.text) == (by_name.model, by_name.text) == ("tiny", by_name.text)
    pair: Any = {"source_language": "ja", "target_language": "en"}
    other = await client.translate_one(SENTENCES[0], **pair, **OPTIONS)
    by_version = await client.translate_one(SENTENCES[0], model="many/1", **pair, **OPTIONS)
    assert (other.model, other.text) == (by_version.model, by_version.text) == ("many", other.text)
    assert other.text != by_pair.text


@pytest.mark.parametrize(
    ("request_of", "fields"),
    [
        ({"model": "many"}, {"target_language_code"}),
        ({"model": "many", "source_language": "ja"}, {"target_language_code"}),
        ({"source_language": "ja"}, {"target_language_code"}),
    ],
)
async def test_an_ambiguous_request_is_refused_with_the_fields_to_set(
    client: AsyncTranslationClient, request_of: Any, fields: set[str]
) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        await client.translate_one("12345", **request_of)
    assert {violation.field for violation in refusal.value.violations} == fields


async def test_a_language_that_one_model_has_is_enough(client: AsyncTranslationClient) -> None:
    by_source = await client.translate_one("12345", source_language="zh")
    by_target = await client.translate_one("12345", target_language="fr")
    by_text = await client.translate_one(SENTENCES[0], max_target_length=4)
    assert [each.model for each in (by_source, by_target, by_text)] == ["tiny", "many", "tiny"]


async def test_an_unknown_pair_is_refused_with_the_served_pairs(client: AsyncTranslationClient) -> None:
    with pytest.raises(ModelNotFoundError, match="served pairs: ja to en, ja to fr, zh to en"):
        await client.translate_one(SENTENCES[0], source_language="zh", target_language="fr")


async def test_the_language_of_the_text_selects_the_model_if_the_request_does_not(
    client: AsyncTranslationClient,
) -> None:
    found = {}
    for text in ("我有三只猫，今天天气很好。", "今日はとてもいい天気ですね。"):
        whole = await client.translate_one(text, target_language="en", max_target_length=4)
        async for streamed in client.translate_stream([text], target_language="en", max_target_length=4):
            assert streamed.translation.detected_language == whole.detected_language
        found[whole.detected_language] = whole.model
    assert found == {"zh": "tiny", "ja": "many"}
    named = await client.translate_one("我有三只猫。", source_language="zh", target_language="en", max_target_length=4)
    assert named.detected_language == ""
    assert (await client.translate_one("12345", target_language="en", max_target_length=4)).detected_language == ""
    copied = await client.translate_one("OK", target_language="en")
    assert (copied.text, copied.hypotheses[0].finish_reason) == ("OK", FinishReason.COPIED)


async def test_a_text_in_a_language_that_no_model_translates_is_refused_by_name(client: AsyncTranslationClient) -> None:
    texts = [
        "我有三只猫，今天天气很好。",
        "Das Wetter ist heute sehr schön.",
        "Bonjour, je suis un développeur à Paris.",
    ]
    with pytest.raises(UnservedLanguageError) as refusal:
        await client.translate(texts, target_language="en")
    assert [each.field for each in refusal.value.violations] == ["contents[1]", "contents[2]"]
    assert refusal.value.detected_languages == ("de", "fr")
    assert refusal.value.served_languages == ("ja", "zh")
    with pytest.raises(UnservedLanguageError) as refusal:
        [_ async for _ in client.translate_progressively(texts[1], target_language="en")]
    assert [each.field for each in refusal.value.violations] == ["content"]
    async for each in client.translate_stream(texts, target_language="en", max_target_length=4):
        assert isinstance(each.error, UnservedLanguageError) is (each.index > 0)


async def test_a_text_in_an_unserved_language_passes_through_if_the_request_says_so(
    client: AsyncTranslationClient,
) -> None:
    texts = ["我有三只猫，今天天气很好。", "Das Wetter ist heute sehr schön."]
    options: Any = {"target_language": "en", "pass_through_unserved": True, "max_target_length": 4}
    expected = [("zh", FinishReason.MAX_LENGTH), ("de", FinishReason.UNSERVED_LANGUAGE)]
    whole = await client.translate(texts, **options)
    in_any_order = [each async for each in client.translate_stream(texts, **options)]
    streamed = [each.translation for each in sorted(in_any_order, key=lambda each: each.index)]
    for answers in (whole, streamed):
        assert [(each.detected_language, each.hypotheses[0].finish_reason) for each in answers] == expected
        assert answers[1].text == texts[1]
        assert answers[1].detected_language_confidence == pytest.approx(1.0, abs=0.1)
    parts = [each async for each in client.translate_progressively(texts[1], **options)]
    assert "".join(each.text_delta for each in parts) == texts[1]
    html = await client.translate_one(f"<p>{texts[1]}</p>", content_format="html", **options)
    assert html.text == f"<p>{texts[1]}</p>"


async def test_a_named_language_is_taken_at_its_word(client: AsyncTranslationClient) -> None:
    named = await client.translate_one(
        "Das Wetter ist heute sehr schön.", source_language="zh", target_language="en", max_target_length=4
    )
    assert named.hypotheses[0].finish_reason is FinishReason.MAX_LENGTH
    assert (named.detected_language, named.detected_language_confidence) == ("", None)
