from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from bundled import unpack_bundle
from copying import copying_transformer
from cost import multiply_adds
from onnx import numpy_helper

from xuanzang.export.weights import quantize_columns
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.config import PRESETS, TransformerConfig
from xuanzang.model.search import beam_search

ROOT = Path(__file__).parents[3]


def test_a_copying_transformer_translates_each_sentence_to_itself() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab_size=300,
        target_vocab_size=300,
        **PRESETS["base"] | {"num_encoder_layers": 1, "num_decoder_layers": 1},
    )
    model = copying_transformer(config)
    for length in (2, 9, 40):
        source = torch.cat([torch.randint(4, 300, (1, length)), torch.tensor([[config.eos_id]])], dim=1)
        found = beam_search(model, source, torch.ones_like(source, dtype=torch.bool), max_target_length=2 * length + 20)
        assert [*found[0][0].target_ids, config.eos_id] == source[0].tolist()


@pytest.fixture(scope="module")
def bundle(tiny_bundle_repository: Path) -> Path:
    return tiny_bundle_repository / "tiny" / "1"


def test_an_unpacked_bundle_has_the_weights_that_were_exported_up_to_rounding(
    bundle: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    unpack_bundle(bundle, tmp_path / "checkpoint")
    unpacked = dict(load_checkpoint(tmp_path / "checkpoint").model.named_parameters())
    for name, exported in load_checkpoint(tiny_checkpoint).model.named_parameters():
        # Half of an 8-bit step, which is a 127th of the greatest weight or less.
        step = exported.abs().max().item() / 127
        torch.testing.assert_close(unpacked[name], exported, atol=0.51 * step, rtol=0)


def test_quantising_unpacked_weights_gives_the_integers_of_the_bundle(tmp_path: Path) -> None:
    bundle = ROOT / "server/models/zh-en/1"
    unpack_bundle(bundle, tmp_path / "checkpoint")
    model = load_checkpoint(tmp_path / "checkpoint").model
    constants = {c.name: numpy_helper.to_array(c) for c in onnx.load(bundle / "decoder.onnx").graph.initializer}
    name = "decoder_layers.0.feed_forward.inner.weight"
    assert constants[name].dtype == "int8"
    integers, _ = quantize_columns(model.get_parameter(name).detach().numpy().T)
    assert (integers == constants[name]).all()


def test_multiply_adds_are_those_of_every_weight_that_a_token_meets() -> None:
    config = TransformerConfig(
        source_vocab_size=50, target_vocab_size=50, **PRESETS["tiny"] | {"num_encoder_layers": 1}
    )
    model = copying_transformer(config)
    count = {
        name: module.weight.numel() for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)
    }
    memory = [name for name in count if "cross_attention.key" in name or "cross_attention.value" in name]
    per_source_token = sum(count[name] for name in count if name.startswith("encoder") or name in memory)
    per_row = sum(count.values()) - per_source_token
    # Five steps: one hypothesis at the first, four at each of the others.
    assert multiply_adds(config, [7], [5], beam_size=4) == 7 * per_source_token + (1 + 4 * 4) * per_row
