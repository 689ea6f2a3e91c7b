from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from xuanzang.model.data.prepare import PrepareSettings, prepare
from xuanzang.model.network.config import PRESETS, TransformerConfig
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.tokenizer import Tokenizer
from xuanzang.model.training.settings import TrainingSettings

WORDS = dict(zip("猫狗鸟鱼马牛羊猪", ["cat", "dog", "bird", "fish", "horse", "cow", "sheep", "pig"], strict=True))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def make_model() -> Callable[..., Transformer]:
    """A tiny model in evaluation mode; options are those of TransformerConfig."""

    def make(**options: object) -> Transformer:
        fields: dict[str, object] = {"source_vocab_size": 23, "target_vocab_size": 23, "dropout": 0.0} | PRESETS["tiny"]
        return Transformer(TransformerConfig(**(fields | options))).eval()  # type: ignore[arg-type]

    return make


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def animal_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """One to three animals, and their English names in reverse order."""
    rng = random.Random(seed)
    sources = ["".join(rng.choices(list(WORDS), k=rng.randint(1, 3))) for _ in range(count)]
    return [(source, " ".join(WORDS[animal] for animal in reversed(source))) for source in sources]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `prepare` wrote: animals in Chinese, and their English names in reverse order."""
    folder = tmp_path_factory.mktemp("animals")
    train = write_pairs(folder / "animals.tsv", animal_pairs(600, 0))
    valid = write_pairs(folder / "valid.tsv", [("猫狗", "dog cat"), ("鱼马鸟", "bird horse fish"), ("猪", "pig")])
    prepare(PrepareSettings(train=[train], valid=valid, output=folder / "data", vocab_size=300))
    return folder / "data"


@pytest.fixture(scope="session")
def tokenizer(data: Path) -> Tokenizer:
    return Tokenizer(data / "source.spm")


@pytest.fixture
def settings(data: Path, tmp_path: Path) -> TrainingSettings:
    """A short run of the tiny preset."""
    return TrainingSettings(
        data=data,
        output=tmp_path / "run",
        preset="tiny",
        batch_tokens=256,
        bf16=False,
        max_steps=6,
        warmup_steps=2,
        validate_every=100,
        save_every=100,
        device="cpu",
    )
