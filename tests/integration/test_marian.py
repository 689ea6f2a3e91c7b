"""A MarianMT model from its directory to a client, through the commands of a user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from export_command import run_export
from transformers import MarianMTModel, MarianTokenizer

from xuanzang.client import AsyncTranslationClient
from xuanzang.model.__main__ import main as run_model

LANGUAGES = {"en": ">>eng<<", "fr-CA": ">>fra_CA<<"}
LIMIT = 30
UNK = 1


@pytest.fixture(scope="module")
def directory(write_marian: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of two target languages that never generates the tokens that its tokeniser drops."""
    folder = tmp_path_factory.mktemp("marian") / "opus-mt-zh-mul"
    write_marian(folder, languages=("eng", "fra_CA"), never=(UNK,), seed=1)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n### Trained on toys\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def repository(directory: Path, toy_files: tuple[Path, Path]) -> Path:
    """Return the repository of the imported and exported model."""
    root = directory.parent
    assert run_model(["import", str(directory), "--output", str(root / "checkpoint")]) == 0
    return run_export(root / "checkpoint", root / "models", model="zh-mul", valid=toy_files[1], precision="float32")


@torch.inference_mode()
def texts_of_transformers(directory: Path, sources: list[str], token: str) -> list[str]:
    tokenizer = MarianTokenizer.from_pretrained(directory)
    inputs = tokenizer([f"{token} {source}" for source in sources], return_tensors="pt", padding=True)
    model = MarianMTModel.from_pretrained(directory)
    sequences = model.generate(
        **inputs, max_new_tokens=LIMIT, num_beams=4, do_sample=False, length_penalty=1.0, early_stopping=True
    )
    texts: list[str] = tokenizer.batch_decode(sequences, skip_special_tokens=True)
    return texts


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
async def test_translations_are_those_of_transformers(
    start_server: Any, repository: Path, directory: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    # One sentence each, with a character that the tokeniser does not know.
    sources = [*(source for source, _ in toy_pairs[::23]), "我有一只鼎。"]
    options: dict[str, Any] = {"beam_size": 4, "min_target_length": 0, "max_target_length": LIMIT}
    async with start_server(models=repository) as running, AsyncTranslationClient(running.address) as client:
        [model] = await client.list_models()
        assert (model.name, model.source_languages, model.target_languages) == ("zh-mul", ("zh",), ("en", "fr-CA"))
        found = {
            language: [each.text for each in await client.translate(sources, target_language=language, **options)]
            for language in LANGUAGES
        }
    assert found == {
        language: texts_of_transformers(directory, sources, token) for language, token in LANGUAGES.items()
    }
    assert len({text for texts in found.values() for text in texts}) > len(sources)


def test_the_model_card_repeats_the_facts_of_the_directory(repository: Path) -> None:
    card = (repository / "zh-mul" / "1" / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "Translates from zh to en, fr-CA." in card
    assert "| imported from | opus-mt-zh-mul |\n| licence | apache-2.0 |" in card
    assert "### Trained on toys" in card
    assert "training pairs" not in card
