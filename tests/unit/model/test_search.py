from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import beam_search

MakeModel = Callable[..., Transformer]
SOURCE = torch.tensor([[4, 5, 2, 3], [5, 4, 4, 2]])
MASK = SOURCE != 3
EOS = 2


def scores_of_every_target(model: Transformer, row: int, penalty: float, minimum: int) -> dict[tuple[int, ...], float]:
    """Score targets of up to three tokens in teacher-forced passes: sums over length ** penalty, eos counted in both.

    While a text is shorter than the minimum, eos has no probability and the other tokens share it.
    """
    words, scores = [token for token in range(6) if token != EOS], dict[tuple[int, ...], float]()
    for length in range(minimum + 1, 4):
        last = range(6) if length == 3 else (EOS,)
        targets = [(*before, end) for before in itertools.product(words, repeat=length - 1) for end in last]
        outputs = torch.tensor(targets)
        inputs = torch.cat([torch.ones(len(targets), 1, dtype=torch.long), outputs[:, :-1]], dim=1)
        logits = model(SOURCE[[row]].expand(len(targets), -1), MASK[[row]].expand(len(targets), -1), inputs)
        logits[:, :minimum, EOS] = -torch.inf
        totals = logits.log_softmax(-1).gather(-1, outputs[..., None]).sum((1, 2)) / length**penalty
        scores |= dict(zip(targets, totals.tolist(), strict=True))
    return scores


@torch.inference_mode()
@pytest.mark.parametrize(
    ("penalty", "minimum", "banned"), [(0.0, 0, ()), (0.5, 0, ()), (0.5, 2, ()), (1.0, 2, ()), (1.0, 0, (3, 5))]
)
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(
    make_model: MakeModel, penalty: float, minimum: int, banned: tuple[int, ...]
) -> None:
    model = make_model(source_vocab_size=6, target_vocab_size=6, banned_ids=banned)
    found = beam_search(
        model,
        SOURCE,
        MASK,
        beam_size=220,
        num_hypotheses=5,
        length_penalty=penalty,
        min_target_length=minimum,
        max_target_length=3,
    )
    for row, hypotheses in enumerate(found):
        scores = scores_of_every_target(model, row, penalty, minimum)
        best = sorted((each for each in scores if not {*banned} & {*each}), key=lambda each: -scores[each])[:5]
        assert [(*h.target_ids, EOS) if h.finished else tuple(h.target_ids) for h in hypotheses] == best
        assert [h.score for h in hypotheses] == pytest.approx([scores[tokens] for tokens in best], abs=1e-5)


def greedy(model: Transformer, row: int, limit: int) -> list[int]:
    tokens = [1]
    for _ in range(limit):
        tokens.append(int(model(SOURCE[row : row + 1], MASK[row : row + 1], torch.tensor([tokens]))[0, -1].argmax()))
        if tokens[-1] == EOS:
            break
    return tokens[1:]


def test_beam_one_is_greedy(make_model: MakeModel) -> None:
    model = make_model()
    with torch.no_grad():
        model.output_projection.weight[EOS] *= 3  # so that some sentences end before the limit
    for row, (hypothesis,) in enumerate(beam_search(model, SOURCE, MASK, beam_size=1, max_target_length=12)):
        expected = greedy(model, row, 12)
        assert hypothesis.target_ids == [token for token in expected if token != EOS]
        assert hypothesis.finished == (expected[-1] == EOS)


def test_a_sentence_gets_the_same_translation_alone_and_in_a_batch(make_model: MakeModel) -> None:
    model = make_model()
    together = beam_search(model, SOURCE, MASK, beam_size=3, num_hypotheses=3, max_target_length=[6, 9])
    (alone,) = beam_search(model, SOURCE[:1, :3], MASK[:1, :3], beam_size=3, num_hypotheses=3, max_target_length=6)
    assert [h.target_ids for h in together[0]] == [h.target_ids for h in alone]
    assert [h.score for h in together[0]] == pytest.approx([h.score for h in alone], abs=1e-5)
    assert max(len(h.target_ids) for h in together[0]) <= 6
