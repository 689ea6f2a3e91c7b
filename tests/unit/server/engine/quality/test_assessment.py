from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.quality.assessment import combined, with_flags
from xuanzang.server.engine.types import Quality, QualityFlag

probabilities = st.floats(0, 1)
flags = st.sets(st.sampled_from(QualityFlag)).map(lambda chosen: tuple(flag for flag in QualityFlag if flag in chosen))
qualities = st.builds(Quality, acceptable_probability=probabilities, flags=flags)


@given(st.lists(qualities, min_size=1, max_size=6), probabilities, st.data())
def test_a_better_sentence_never_makes_the_text_worse(
    sentences: list[Quality], better: float, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(sentences) - 1))
    before = combined(sentences)
    raised = max(better, sentences[place].acceptable_probability or 0.0)
    sentences[place] = Quality(acceptable_probability=raised)
    after = combined(sentences)
    assert before
    assert after
    assert (after.acceptable_probability or 0.0) >= (before.acceptable_probability or 0.0)


@given(st.lists(qualities, min_size=1, max_size=6))
def test_a_text_is_no_likelier_acceptable_than_any_sentence_and_has_all_flags(sentences: list[Quality]) -> None:
    whole = combined(sentences)
    assert whole
    assert whole.acceptable_probability is not None
    assert all(whole.acceptable_probability <= (each.acceptable_probability or 0.0) for each in sentences)
    assert set(whole.flags) == {flag for each in sentences for flag in each.flags}
    assert combined(reversed(sentences)) == whole


def test_text_that_was_copied_has_no_probability() -> None:
    assert combined([None, None]) is None
    assert with_flags(None, []) == Quality()


def test_flags_come_in_one_order_and_once() -> None:
    first = Quality(acceptable_probability=0.5, flags=(QualityFlag.NAME_LOST,))
    added = with_flags(first, [QualityFlag.CUT, QualityFlag.REPETITION, QualityFlag.NAME_LOST])
    assert added.flags == (QualityFlag.REPETITION, QualityFlag.NAME_LOST, QualityFlag.CUT)
    assert added.acceptable_probability == 0.5
