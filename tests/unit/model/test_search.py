from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from xuanzang.model.beams import Beam
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import beam_search

MakeModel = Callable[..., Transformer]
SOURCE = torch.tensor([[4, 5, 2, 3], [5, 4, 4, 2]])
MASK = SOURCE != 3
EOS = 2


def score_of(model: Transformer, row: int, tokens: tuple[int, ...], penalty: float, minimum: int = 0) -> float:
    """Score by one teacher-forced pass: summed log-probabilities over length ** penalty, eos counted in both.

    While a text is shorter than the minimum, eos has no probability and the other tokens share it.
    """
    inputs, outputs = torch.tensor([[1, *tokens[:-1]]]), torch.tensor([list(tokens)])
    logits = model(SOURCE[row : row + 1], MASK[row : row + 1], inputs)
    logits[:, :minimum, EOS] = -torch.inf
    total = float(logits.log_softmax(-1).gather(-1, outputs[..., None]).sum().detach())
    return total / float(len(tokens) ** penalty)


def every_target(vocab_size: int, limit: int, minimum: int = 0) -> list[tuple[int, ...]]:
    words = [token for token in range(vocab_size) if token != EOS]
    ended = [
        (*words_before, EOS)
        for length in range(minimum, limit)
        for words_before in itertools.product(words, repeat=length)
    ]
    return ended + list(itertools.product(words, repeat=limit))


@pytest.mark.parametrize("penalty", [0.5, 1.0])
@pytest.mark.parametrize("minimum", [0, 2])
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(
    make_model: MakeModel, penalty: float, minimum: int
) -> None:
    model = make_model(source_vocab_size=6, target_vocab_size=6)
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
        scores = {tokens: score_of(model, row, tokens, penalty, minimum) for tokens in every_target(6, 3, minimum)}
        best = sorted(scores, key=lambda tokens: -scores[tokens])[:5]
        assert [(*h.target_ids, EOS) if h.finished else tuple(h.target_ids) for h in hypotheses] == best
        assert [h.score for h in hypotheses] == pytest.approx([scores[tokens] for tokens in best], abs=1e-5)


def test_banned_pieces_are_never_generated_and_leave_the_others_their_probability(make_model: MakeModel) -> None:
    model = make_model(source_vocab_size=6, target_vocab_size=6, banned_ids=(3, 5))
    found = beam_search(model, SOURCE, MASK, beam_size=60, num_hypotheses=5, max_target_length=3)
    for row, hypotheses in enumerate(found):
        targets = [tokens for tokens in every_target(6, 3) if not {3, 5} & {*tokens}]
        scores = {tokens: score_of(model, row, tokens, 1.0) for tokens in targets}
        best = sorted(scores, key=lambda tokens: -scores[tokens])[:5]
        assert [(*h.target_ids, EOS) if h.finished else tuple(h.target_ids) for h in hypotheses] == best
        assert [h.score for h in hypotheses] == pytest.approx([scores[tokens] for tokens in best], abs=1e-5)


def test_without_length_penalty_the_best_of_all_sums_wins(make_model: MakeModel) -> None:
    model = make_model(source_vocab_size=6, target_vocab_size=6)
    found = beam_search(model, SOURCE, MASK, beam_size=220, length_penalty=0.0, max_target_length=3)
    for row, (hypothesis,) in enumerate(found):
        best = max(score_of(model, row, tokens, 0.0) for tokens in every_target(6, 3))
        assert hypothesis.score == pytest.approx(best, abs=1e-5)


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


# A step function instead of a model: the next token's probabilities depend on the last token only.
# The best first word is A, but the best sentence starts with B.
A, B, C, D, E, END = range(6)
NEXT = {
    None: {A: 0.5, B: 0.4, C: 0.1},
    A: {D: 0.35, E: 0.35, END: 0.3},
    B: {E: 0.9, END: 0.1},
    C: {END: 1.0},
    D: {END: 1.0},
    E: {END: 1.0},
}


def search_letters(beam_size: int) -> tuple[list[int], float]:
    beam, limit = Beam(beam_size, 1, 0.0, 4), 4
    last: list[int | None] = [None] * beam_size
    for _ in range(limit):
        log_probs = torch.full((beam_size, 6), -torch.inf)
        for row, token in enumerate(last):
            for successor, probability in NEXT.get(token, {END: 1.0}).items():
                log_probs[row, successor] = torch.tensor(probability).log()
        totals: Tensor = (torch.tensor(beam.scores)[:, None] + log_probs).flatten()
        best, flat = totals.topk(2 * beam_size)
        beam.advance(best.tolist(), (flat // 6).tolist(), (flat % 6).tolist(), END)
        if beam.done:
            break
        last = list(beam.last)
    (hypothesis,) = beam.hypotheses()
    return hypothesis.target_ids, hypothesis.score


def test_a_beam_of_two_finds_the_sentence_that_greedy_search_misses() -> None:
    tokens, score = search_letters(1)
    assert tokens in ([A, D], [A, E])
    assert score == pytest.approx(torch.tensor(0.5 * 0.35).log().item())
    tokens, score = search_letters(2)
    assert tokens == [B, E]
    assert score == pytest.approx(torch.tensor(0.4 * 0.9).log().item())
