from __future__ import annotations

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from ctranslate2_spec import save_as_ctranslate2

from benchmarks.engines.cost import multiply_adds
from benchmarks.engines.widening import widened
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.model.network.config import PRESETS, TransformerConfig
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.tokenizer import EOS_ID

ROOT = Path(__file__).parents[3]


def test_a_widened_transformer_computes_the_same_function() -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"source_vocab_size": 300, "target_vocab_size": 300}
    trained = Transformer(TransformerConfig(**sizes, **PRESETS["tiny"])).eval()
    wide: dict[str, Any] = {"d_model": 128, "num_heads": 8, "d_ff": 512, "num_encoder_layers": 3}
    model = widened(trained, TransformerConfig(**sizes, **wide, num_decoder_layers=5, positions="learned"))
    source, target = torch.randint(4, 300, (3, 20)), torch.randint(4, 300, (3, 30))
    mask = torch.arange(20) < torch.tensor([[20], [7], [1]])
    torch.testing.assert_close(model(source, mask, target), trained(source, mask, target), atol=1e-3, rtol=1e-3)


def test_a_transformer_cannot_be_widened_by_a_half() -> None:
    sizes: dict[str, Any] = {"source_vocab_size": 300, "target_vocab_size": 300}
    trained = Transformer(TransformerConfig(**sizes, **PRESETS["tiny"]))
    with pytest.raises(ValueError, match="cannot be widened"):
        widened(trained, TransformerConfig(**sizes, **PRESETS["tiny"] | {"d_ff": 192}, positions="learned"))


def test_multiply_adds_count_every_weight_that_a_token_uses() -> None:
    config = TransformerConfig(
        source_vocab_size=50, target_vocab_size=50, **PRESETS["tiny"] | {"num_encoder_layers": 1}
    )
    model = Transformer(config)
    count = {
        name: module.weight.numel() for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)
    }
    memory = [name for name in count if "cross_attention.key" in name or "cross_attention.value" in name]
    per_source_token = sum(count[name] for name in count if name.startswith("encoder") or name in memory)
    per_row = sum(count.values()) - per_source_token
    # Five steps: one hypothesis at the first, four at each of the others.
    assert multiply_adds(config, [7], [5], beam_size=4) == 7 * per_source_token + (1 + 4 * 4) * per_row


def test_ctranslate2_decodes_with_our_shortlist(tiny_checkpoint: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    size = checkpoint.model.config.target_vocab_size
    # Each source piece suggests itself.
    shortlist = Shortlist(np.arange(size, dtype=np.int32)[:, None], np.array([EOS_ID, 50, 51, 52], dtype=np.int32))
    save_as_ctranslate2(checkpoint, tmp_path / "model", shortlist)
    pieces = checkpoint.source_tokenizer.pieces(checkpoint.source_ids("我有一只猫。"))
    allowed = {*pieces, *checkpoint.target_tokenizer.pieces([50, 51, 52])}
    translator = ctranslate2.Translator(str(tmp_path / "model"))
    free, kept = (
        translator.translate_batch([pieces], use_vmap=used, min_decoding_length=8, max_decoding_length=8)[0]
        for used in (False, True)
    )
    assert {*kept.hypotheses[0]} <= allowed
    assert not {*free.hypotheses[0]} <= allowed
