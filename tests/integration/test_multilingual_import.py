"""Models of many languages from their directories to a client, through the commands of a user."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from export_command import run_export
from multilingual_directories import SPM, write_m2m, write_nllb
from tests.integration.conftest import shared
from transformers import M2M100ForConditionalGeneration, M2M100Tokenizer

from xuanzang.client import AsyncTranslationClient, CandidateReason, InvalidRequestError
from xuanzang.model.__main__ import main as run_model

LIMIT = 30
UNK, EOS = 3, 2
OPTIONS: dict[str, Any] = {"beam_size": 4, "min_target_length": 0, "max_target_length": LIMIT - 1}
DIRECTIONS = [("zh", "en"), ("en", "zh"), ("fr", "en"), ("en", "fr")]


@pytest.fixture(scope="module")
def serve_directory(toy_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that imports and exports a directory, and returns the repository."""

    def make(directory: Path, precision: str = "float32", command: str = "import") -> Path:
        root = tmp_path_factory.mktemp("many")
        assert run_model([command, str(directory), "--output", str(root / "checkpoint")]) == 0
        languages = {"source_language": "zh", "target_language": "en"}
        return run_export(
            root / "checkpoint", root / "models", model="many", valid=toy_files[1], precision=precision, **languages
        )

    return make


@pytest.fixture(scope="module")
def m2m(shared_tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("m2m") / "m2m100"
    write_m2m(shared_tokenizer, folder, every_language=True, never=(UNK,), seed=3)
    return folder


@torch.inference_mode()
def texts_of_transformers(directory: Path, sources: list[str], source_language: str, target_language: str) -> list[str]:
    tokenizer = M2M100Tokenizer(str(directory / "vocab.json"), str(directory / SPM), src_lang=source_language)
    model = M2M100ForConditionalGeneration.from_pretrained(directory)
    sequences = model.generate(
        **tokenizer(sources, return_tensors="pt", padding=True),
        forced_bos_token_id=tokenizer.get_lang_id(target_language),
        max_new_tokens=LIMIT,
        num_beams=4,
        do_sample=False,
        length_penalty=1.0,
        early_stopping=True,
    )
    # A tokeniser that was not loaded from a directory does not know that these are special.
    texts = tokenizer.batch_decode(sequences, skip_special_tokens=True)
    return [re.sub(r"__[a-z]{2,3}__", "", text).strip() for text in texts]


async def test_every_direction_is_that_of_transformers(
    start_server: Any, serve_directory: Callable[..., Path], m2m: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    sources = [*(source for source, _ in toy_pairs[::29]), "我有一只鼎。", "I have __fr__ a cat."]
    async with start_server(models=serve_directory(m2m)) as running, AsyncTranslationClient(running.address) as client:
        [model] = await client.list_models()
        assert len(model.source_languages) == 100
        # Chinese is written in four traditional ways, too.
        assert len(model.target_languages) == 104
        assert (model.source_languages[0], model.target_languages[0]) == ("zh", "en")
        for source, target in DIRECTIONS:
            languages: dict[str, Any] = {"source_language": source, "target_language": target}
            found = [each.text for each in await client.translate(sources, **languages, **OPTIONS)]
            assert found == texts_of_transformers(m2m, sources, source, target)
        with pytest.raises(InvalidRequestError, match="target_language_code"):
            await client.translate_one(sources[0])
        # What tells no language needs a name.
        with pytest.raises(InvalidRequestError, match="source_language_code"):
            await client.translate_one("OK", target_language="en")


@pytest.fixture(scope="module")
def nllb(shared_tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nllb") / "nllb-200"
    write_nllb(shared_tokenizer, folder, seed=5)
    return folder


@pytest.fixture(scope="module")
def nllb_models(serve_directory: Callable[..., Path], nllb: Path) -> Path:
    return serve_directory(nllb, "int8")


@shared
async def client(start_server: Any, nllb_models: Path) -> AsyncIterator[AsyncTranslationClient]:
    async with start_server(models=nllb_models) as running, AsyncTranslationClient(running.address) as opened:
        yield opened


async def test_the_token_of_the_language_is_in_no_answer(client: AsyncTranslationClient) -> None:

    async def translate(**options: Any) -> Any:
        return await client.translate_one(
            "我有一只猫。", source_language="zh-CN", target_language="en", beam_size=4, **options
        )

    [plain] = (await translate(token_details=True, return_scores=True)).hypotheses
    assert "Latn" not in plain.text
    assert plain.tokens[0].text == ""
    assert "".join(token.text for token in plain.tokens) == plain.text
    assert plain.tokens[0].score == 0.0
    assert plain.token_count == len(plain.tokens)
    begun = await translate(target_prefix="I ")
    assert begun.text.startswith("I")
    several = await translate(return_alternatives=True, num_hypotheses=3)
    assert len({hypothesis.text for hypothesis in several.hypotheses}) == 3
    assert all("_" not in hypothesis.text for hypothesis in several.hypotheses)


async def test_an_explanation_shows_the_tokens_that_name_the_languages(client: AsyncTranslationClient) -> None:
    languages: Any = {"source_language": "zh-CN", "target_language": "en", "beam_size": 4}
    plain = await client.translate_one("我有一只猫。", **languages)
    explained = await client.explain("我有一只猫。", **languages, attention_kinds=["cross", "encoder"])
    assert explained.text == plain.text
    first, *others = explained.target_tokens
    assert (first.piece, first.text, first.score, first.forced) == ("eng_Latn", "", 0.0, True)
    assert not any(token.forced for token in others)
    assert [each.reason for each in explained.search_steps[0].candidates] == [CandidateReason.FORCED]
    assert "zho_Hans" in [token.piece for token in explained.source_tokens]
    assert all(sum(row) == pytest.approx(1.0, abs=1e-4) for each in explained.attention for row in each.weights)


async def test_scripts_of_one_language_are_told_apart(client: AsyncTranslationClient) -> None:
    [model] = await client.list_models()
    codes = {"ace-Arab", "ace-Latn", "en", "fr", "zh", "zh-Hans", "zh-Hant", "zh-TW", "zh-HK", "zh-MO"}
    assert {*model.target_languages} == {*model.source_languages} == codes

    async def written(target: str) -> str:
        return (await client.translate_one("我有一只猫。", source_language="zh", target_language=target)).text

    assert await written("zh-CN") == await written("zh-Hans")
    assert await written("zh-TW") == await written("zh-Hant")
    assert await written("zh-TW") != await written("zh-CN")
