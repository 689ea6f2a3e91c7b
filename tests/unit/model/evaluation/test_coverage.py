from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.evaluation.attention_maps import measure_coverage, source_coverage

SOURCES = ["我有一只猫，他有两只狗。", "她每天早上六点起床，然后去公园跑步。", "请打开窗户，今天太热了。"]
TRANSLATIONS = [
    "I have a cat and he has two dogs.",
    "She gets up at six every morning and then goes running in the park.",
    "Please open the window, it's too hot today.",
]


@pytest.fixture(scope="module")
def checkpoint(bundled_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(bundled_checkpoint)


def test_a_translation_that_leaves_out_half_covers_less(checkpoint: Checkpoint) -> None:
    for source, translation in zip(SOURCES, TRANSLATIONS, strict=True):
        part = " ".join(translation.split()[:3])
        assert source_coverage(checkpoint, source, part) < source_coverage(checkpoint, source, translation) <= 1


def test_the_coverage_of_a_set_is_that_of_its_sentences(checkpoint: Checkpoint) -> None:
    translations = [*TRANSLATIONS[:2], "Yes."]
    each = [source_coverage(checkpoint, *pair) for pair in zip(SOURCES, translations, strict=True)]
    coverage = measure_coverage(checkpoint, SOURCES, translations)
    assert coverage.mean == pytest.approx(sum(each) / 3)
    assert (coverage.low, coverage.sentences) == (1, 3)
