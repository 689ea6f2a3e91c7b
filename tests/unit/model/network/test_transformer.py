from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from xuanzang.model.network.attention import MultiHeadAttention
from xuanzang.model.network.cache import DecoderCache
from xuanzang.model.network.config import PRESETS, ConfigError, TransformerConfig
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.tokenizer import PAD_ID

MakeModel = Callable[..., Transformer]
SOURCE = torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, PAD_ID, PAD_ID]])
SOURCE_MASK = SOURCE != PAD_ID
TARGET = torch.tensor([[1, 10, 11, 12], [1, 13, 14, 15]])
EVERY_SHAPE = pytest.mark.parametrize(
    "options",
    [
        {"norm": norm, "positions": positions, "num_encoder_layers": encoder, "num_decoder_layers": decoder}
        for norm, positions, encoder, decoder in [
            ("pre", "sinusoidal", 2, 2),
            ("post", "sinusoidal", 2, 2),
            ("pre", "learned", 4, 1),
            ("post", "learned", 1, 3),
        ]
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = (ours.query_projection, ours.key_projection, ours.value_projection)
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    theirs.out_proj.load_state_dict(ours.output_projection.state_dict())


def copy_layer(ours: nn.Module, theirs: nn.Module, residuals: list[str]) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)  # type: ignore[arg-type]
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)  # type: ignore[arg-type]
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())  # type: ignore[union-attr]
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())  # type: ignore[union-attr]
    for number, name in enumerate(residuals, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(getattr(ours, f"{name}_residual").norm.state_dict())


@torch.no_grad()
def torch_transformer(model: Transformer) -> nn.Transformer:
    """torch's own Transformer with the same weights; a post-norm stack gets no norm at its end, as in the paper."""
    config = model.config
    layer_options = {"dropout": 0.0, "batch_first": True, "norm_first": config.norm == "pre"}
    sizes = (config.d_model, config.num_heads, config.d_ff)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*sizes, **layer_options),  # type: ignore[arg-type]
        config.num_encoder_layers,
        norm=nn.LayerNorm(config.d_model) if config.norm == "pre" else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(*sizes, **layer_options),  # type: ignore[arg-type]
        config.num_decoder_layers,
        norm=nn.LayerNorm(config.d_model) if config.norm == "pre" else None,
    )
    theirs = nn.Transformer(
        config.d_model, config.num_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    ).eval()
    # Training starts from norms of scale 1 and shift 0; others show that each norm is where it should be.
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.uniform_(0.5, 1.5)
    for mine, other in zip(model.encoder_layers, encoder.layers, strict=True):
        copy_layer(mine, other, ["self_attention", "feed_forward"])
    for mine, other in zip(model.decoder_layers, decoder.layers, strict=True):
        copy_layer(mine, other, ["self_attention", "cross_attention", "feed_forward"])
    if encoder.norm and decoder.norm:
        encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    return theirs


@EVERY_SHAPE
def test_whole_model_equals_the_transformer_of_torch_on_the_same_weights(
    make_model: MakeModel, options: dict[str, object]
) -> None:
    model = make_model(**options)
    theirs = torch_transformer(model)
    hidden = theirs(
        model._embed_source(SOURCE),
        model._embed_target(TARGET),
        tgt_mask=~torch.ones(4, 4, dtype=torch.bool).tril(),
        src_key_padding_mask=~SOURCE_MASK,
        memory_key_padding_mask=~SOURCE_MASK,
    )
    expected = model.output_projection(hidden)
    torch.testing.assert_close(model(SOURCE, SOURCE_MASK, TARGET), expected, atol=1e-5, rtol=1e-5)


@EVERY_SHAPE
def test_cached_steps_give_what_teacher_forcing_gives(make_model: MakeModel, options: dict[str, object]) -> None:
    model = make_model(**options)
    memory = model.encode(SOURCE, SOURCE_MASK)
    expected = model.decode(TARGET, memory, SOURCE_MASK)
    cache = model.start(memory, SOURCE_MASK)
    for position in range(TARGET.size(1)):
        assert cache.length == position
        logits, cache = model.step(TARGET[:, position], cache)
        torch.testing.assert_close(logits, expected[:, position], atol=1e-5, rtol=1e-5)


def test_a_cache_can_be_reordered_between_steps(make_model: MakeModel) -> None:
    model = make_model()

    def advance(cache: DecoderCache, token_ids: list[int]) -> tuple[Tensor, DecoderCache]:
        return model.step(torch.tensor(token_ids), cache)

    _, cache = advance(model.start(model.encode(SOURCE, SOURCE_MASK), SOURCE_MASK), [1, 1])
    straight, _ = advance(cache, [5, 6])
    swapped, _ = advance(cache.select(torch.tensor([1, 0, 1])), [6, 5, 6])
    torch.testing.assert_close(swapped, straight[[1, 0, 1]])


@EVERY_SHAPE
def test_padding_changes_nothing(make_model: MakeModel, options: dict[str, object]) -> None:
    model = make_model(**options)
    expected = model(SOURCE, SOURCE_MASK, TARGET)
    other = SOURCE.masked_fill(~SOURCE_MASK, 17)
    torch.testing.assert_close(model(other, SOURCE_MASK, TARGET), expected)
    alone = model(SOURCE[1:, :3], SOURCE_MASK[1:, :3], TARGET[1:])
    torch.testing.assert_close(alone, expected[1:])
    longer = nn.functional.pad(TARGET, (0, 2), value=PAD_ID)
    torch.testing.assert_close(model(SOURCE, SOURCE_MASK, longer)[:, :4], expected)


@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_parameter_counts_are_those_of_the_paper(preset: str, millions: int) -> None:
    config = TransformerConfig(source_vocab_size=37000, target_vocab_size=37000, norm="post", **PRESETS[preset])
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in Transformer(config).parameters())
    assert count == pytest.approx(millions * 1e6, rel=0.03)


def test_separate_vocabularies_have_their_own_tables(make_model: MakeModel) -> None:
    model = make_model(source_vocab_size=11, target_vocab_size=23, share_embeddings=False)
    assert model(SOURCE, SOURCE_MASK, TARGET).shape == (2, 4, 23)
    assert model.output_projection.weight is model.target_embedding.weight
    assert model.source_embedding.weight.shape == (11, 64)


def test_a_wrong_configuration_names_every_fault() -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(
            source_vocab_size=10,
            target_vocab_size=0,
            d_model=65,
            num_heads=4,
            dropout=1.0,
            norm="sideways",  # type: ignore[arg-type]
            activation="selu",  # type: ignore[arg-type]
            banned_ids=(3,),
        )
    for part in (
        "target_vocab_size is 0",
        "activation is 'selu'",
        "banned_ids has 3",
        "multiple of num_heads",
        "must be even",
        "dropout is 1.0",
        "equal vocabularies",
        "norm is 'sideways'",
    ):
        assert part in str(caught.value)
