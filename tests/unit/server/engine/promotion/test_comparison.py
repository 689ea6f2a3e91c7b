from __future__ import annotations

from xuanzang.server.engine.promotion.chrf import chrf
from xuanzang.server.engine.promotion.comparison import compare


def test_equal_translations_agree_in_everything() -> None:
    for texts in (["a cat", "a dog"], ["a"], [""], [" "]):
        agreement = compare(texts, texts)
        assert (agreement.exact_match, agreement.chrf, agreement.length_ratio) == (1.0, 100.0, 1.0)


def test_other_translations_are_counted_measured_and_weighed() -> None:
    agreement = compare(["a cat", "dogs"], ["a cat", "two dogs"])
    assert agreement.exact_match == 0.5
    assert agreement.length_ratio == 9 / 13
    assert agreement.chrf == chrf(["a cat", "dogs"], ["a cat", "two dogs"])


def test_translations_of_which_one_side_is_empty_have_nothing_in_common() -> None:
    assert compare([""], ["four"]).length_ratio == 0
    assert compare(["four"], [""]).length_ratio == 4
    assert compare(["four"], [""]).chrf == 0
