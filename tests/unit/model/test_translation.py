from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from xuanzang.model import translation
from xuanzang.model.checkpoint import load_checkpoint, save_checkpoint
from xuanzang.model.data.dataset import PreparedSplit
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import beam_search
from xuanzang.model.tokenizer import PAD_ID
from xuanzang.model.training.validator import pair_losses
from xuanzang.model.translation import SourceLengthError, translate_ids

MakeModel = Callable[..., Transformer]
SENTENCES = [[4, 5, 6, 2], [7, 2], [8, 9, 10, 11, 12, 2], [13, 2]]


def test_the_loss_of_a_pair_does_not_depend_on_its_batch(make_model: MakeModel, data: Path) -> None:
    model, split = make_model(source_vocab_size=300, target_vocab_size=300), PreparedSplit(data, "valid")
    losses = []
    for i in range(len(split)):
        batch = split.batch([i])
        logits = model(batch.source_ids, batch.source_mask, batch.target_input_ids)
        losses.append(F.cross_entropy(logits[0], batch.target_output_ids[0], reduction="none"))
    for batch_tokens in (8, 1000):
        found = pair_losses(model, split, batch_tokens, torch.device("cpu"))
        assert found == pytest.approx([loss.sum().item() for loss in losses], rel=1e-5)


def test_translations_keep_the_order_of_their_sources_whatever_the_batches(make_model: MakeModel) -> None:
    model = make_model()
    alone = [translate_ids(model, [sentence], beam_size=2)[0][0].target_ids for sentence in SENTENCES]
    for batch_sentences in (1, 3, 32):
        found = translate_ids(model, SENTENCES, beam_size=2, batch_sentences=batch_sentences)
        assert [hypotheses[0].target_ids for hypotheses in found] == alone


def test_translating_is_beam_search(make_model: MakeModel) -> None:
    model, source = make_model(), torch.tensor([SENTENCES[2]])
    options = {"beam_size": 4, "num_hypotheses": 3, "length_penalty": 0.6}
    expected = beam_search(model, source, source != PAD_ID, max_target_length=32, **options)  # type: ignore[arg-type]
    assert translate_ids(model, [SENTENCES[2]], **options) == expected  # type: ignore[arg-type]


def test_a_sentence_longer_than_the_model_takes_is_named(make_model: MakeModel) -> None:
    model = make_model(max_positions=5)
    with pytest.raises(SourceLengthError, match="sentence 3 has 6 tokens, the model takes at most 5"):
        translate_ids(model, SENTENCES, beam_size=1)


def test_threads_are_measured_with_the_model_that_is_used(
    data: Path, tmp_path: Path, make_model: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(source_vocab_size=300, target_vocab_size=300)
    save_checkpoint(tmp_path / "best", dict(model.named_parameters()), model.config, data, training={})
    checkpoint = load_checkpoint(tmp_path / "best")
    seen: set[int] = set()
    checkpoint.model.register_forward_hook(lambda *_: seen.add(torch.get_num_threads()))
    monkeypatch.setattr(translation, "usable_threads", lambda: 2)
    translation.use_fastest_threads(checkpoint)
    assert seen == {1, 2}
