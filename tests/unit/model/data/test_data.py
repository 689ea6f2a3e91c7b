from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.dataset import PreparedSplit, epoch_batches, sequential_batches
from xuanzang.model.data.metadata import read_metadata
from xuanzang.model.tokenizer import BOS_ID, EOS_ID, PAD_ID


@pytest.fixture
def split(tmp_path: Path) -> PreparedSplit:
    """500 pairs of 2 to 30 tokens; every third is of corpus 1, the others of corpus 0."""
    rng = np.random.default_rng(0)
    for side in ("source", "target"):
        lengths = rng.integers(2, 31, 500)
        ids = rng.integers(4, 100, lengths.sum()).astype(np.uint16)
        ids[np.cumsum(lengths) - 1] = EOS_ID
        np.save(tmp_path / f"train.{side}.ids.npy", ids)
        np.save(tmp_path / f"train.{side}.offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    np.save(tmp_path / "train.corpus.npy", (np.arange(500) % 3 == 0).astype(np.uint16))
    return PreparedSplit(tmp_path, "train")


def test_at_weight_one_every_pair_comes_exactly_once_in_an_epoch(split: PreparedSplit) -> None:
    batches = epoch_batches(split, [1.0, 1.0], 200, seed=0, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert sorted(np.concatenate(sequential_batches(split, 200)).tolist()) == list(range(500))


@pytest.mark.parametrize("batch_tokens", [64, 200, 1000])
def test_no_batch_is_over_its_budget_and_little_of_it_is_padding(split: PreparedSplit, batch_tokens: int) -> None:
    longest = split.lengths.max(axis=1)
    batches = epoch_batches(split, [1.0, 1.0], batch_tokens, seed=0, epoch=0)
    assert all(len(batch) * longest[batch].max() <= batch_tokens for batch in batches)
    used = sum(int(longest[batch].sum()) for batch in batches)
    assert used > 0.7 * sum(int(len(batch) * longest[batch].max()) for batch in batches)


def test_lengths_of_batches_can_be_multiples_of_a_number(split: PreparedSplit, tmp_path: Path) -> None:
    padded = PreparedSplit(tmp_path, "train", multiple=8)
    for indices in epoch_batches(padded, [1.0, 1.0], 200, seed=0, epoch=0):
        batch, plain = padded.batch(indices), split.batch(indices)
        assert batch.source_ids.size(1) % 8 == batch.target_input_ids.size(1) % 8 == 0
        assert max(batch.source_ids.numel(), batch.target_input_ids.numel()) <= 200
        for wide, narrow in zip(batch, plain, strict=True):
            assert torch.equal(wide[:, : narrow.size(1)], narrow)
            assert not (wide[:, narrow.size(1) :] != (0 if wide.dtype == torch.bool else PAD_ID)).any()


def test_a_pair_longer_than_the_budget_comes_alone(split: PreparedSplit) -> None:
    longest = split.lengths.max(axis=1)
    for batch in epoch_batches(split, [1.0, 1.0], 20, seed=0, epoch=0):
        assert len(batch) == 1 or len(batch) * longest[batch].max() <= 20


def test_weights_say_how_often_the_pairs_of_a_corpus_come(split: PreparedSplit) -> None:
    epochs = [np.concatenate(epoch_batches(split, [0.25, 2.0], 200, seed=0, epoch=epoch)) for epoch in range(40)]
    counts = Counter(np.concatenate(epochs).tolist())
    assert all(counts[i] == 80 for i in range(0, 500, 3))
    others = [counts[i] for i in range(500) if i % 3]
    assert np.mean(others) == pytest.approx(10, abs=0.5)
    assert {int(index) for index in epochs[0]} != {int(index) for index in epochs[1]}


def test_the_same_seed_and_epoch_give_the_same_batches_and_others_do_not(split: PreparedSplit) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in epoch_batches(split, [0.5, 1.0], 200, seed=seed, epoch=epoch)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_a_batch_shifts_the_target_by_one_and_masks_what_is_padding(split: PreparedSplit) -> None:
    batch = split.batch([3, 8, 5])
    lengths = torch.from_numpy(split.lengths[[3, 8, 5]])
    assert batch.source_mask.sum(1).tolist() == lengths[:, 0].tolist()
    assert torch.equal(batch.source_mask, batch.source_ids != PAD_ID)
    assert batch.target_tokens == lengths[:, 1].sum()
    for row, length in enumerate(lengths[:, 1].tolist()):
        assert batch.target_input_ids[row, 0] == BOS_ID
        assert torch.equal(batch.target_input_ids[row, 1:length], batch.target_output_ids[row, : length - 1])
        assert batch.target_output_ids[row, length - 1] == EOS_ID
        assert (batch.target_output_ids[row, length:] == PAD_ID).all()
        assert (batch.target_input_ids[row, length:] == PAD_ID).all()


def test_a_folder_that_prepare_did_not_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no prepared data"):
        read_metadata(tmp_path)
