"""Made requests, by which an export measures whether a model keeps terms that stand in the source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.certification.samples import made_requests, measure_terms
from xuanzang.export.examples import Example
from xuanzang.model.beams import Hypothesis
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.tokenizer import Tokenizer

PAIRS = [("我昨天买了一台打印机。", "Yesterday I bought a printer."), ("你最近怎么样？", "How is everything with you?")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(Path(__file__).parents[3] / "server" / "models" / "zh-en" / "4" / "source.spm")


def made(tokenizer: Tokenizer, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    examples = [(Example(source, [], [], "zh to en"), text) for source, text in pairs]
    return [(example.source, word) for example, word in made_requests(examples, tokenizer, tokenizer)]


def test_a_word_of_another_translation_stands_for_one_of_the_sentence(tokenizer: Tokenizer) -> None:
    assert made(tokenizer, PAIRS) == [
        ("我昨天买了一台 everything 。", "everything"),
        ("你 printer 怎么样？", "printer"),
    ]
    turned = made(tokenizer, [(target, source) for source, target in PAIRS])
    assert [source for source, _ in turned] == [
        f"Yesterday I bought a {turned[0][1]} .",
        f"How is {turned[1][1]} with you?",
    ]


def test_a_word_that_the_translation_has_already_proves_nothing(tokenizer: Tokenizer) -> None:
    assert made(tokenizer, [("红色的花朵很美。", "The crimson"), ("大红色的花朵很美。", "The crimson")]) == []


@pytest.mark.parametrize(
    ("echoed", "place"), [(2, manifest_pb2.TERM_PLACE_SOURCE), (0, manifest_pb2.TERM_PLACE_SEARCH)]
)
def test_terms_stand_in_the_source_of_models_that_keep_most_of_them(
    tiny_checkpoint: Path, echoed: int, place: int
) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    words = ["garden", "window", "letter", "winter", "silver", "bridge", "cousin", "market", "puzzle"]
    pairs = [(f"Near the {word}.", f"Am {word[::-1]}.") for word in words]
    examples = [Example(source, checkpoint.source_ids(source), [], "zh to en") for source, _ in pairs]

    def written(texts: list[str]) -> list[list[Hypothesis]]:
        return [[Hypothesis(checkpoint.target_tokenizer.encode(text)[:-1], 0.0, finished=True)] for text in texts]

    def translate(made: Sequence[Example]) -> list[list[Hypothesis]]:
        # Every third translation or so lacks what its source has.
        return written([example.source if number % 3 < echoed else "" for number, example in enumerate(made)])

    terms = measure_terms(checkpoint, examples, written([target for _, target in pairs]), translate)
    assert terms.requests == len(words)
    assert terms.place == place
    assert terms.kept_share == pytest.approx(echoed / 3, abs=0.001)
