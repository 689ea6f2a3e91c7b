from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from xuanzang.model.network.transformer import Transformer
from xuanzang.model.training.optimizers import Muon, Optimizers

MakeModel = Callable[..., Transformer]
SHAPES = [(8, 8), (24, 8), (8, 24), (8, 8)]


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def set_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def changed(before: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_muon_makes_the_steps_of_torch_own_muon() -> None:
    pytest.importorskip("torch", minversion="2.9")
    ours, theirs = parameters(), parameters()
    optimizers = (
        Muon(ours, lr=0.02, momentum=0.9, weight_decay=0.3),
        torch.optim.Muon(theirs, lr=0.02, momentum=0.9, weight_decay=0.3, adjust_lr_fn="match_rms_adamw"),
    )
    for _ in range(4):
        for parameter, other in zip(ours, theirs, strict=True):
            parameter.grad = torch.randn_like(parameter)
            other.grad = parameter.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for parameter, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(parameter, other, atol=1e-3, rtol=0)  # updates are bfloat16


def test_muon_refuses_what_is_no_matrix() -> None:
    with pytest.raises(ValueError, match="matrices only"):
        Muon([nn.Parameter(torch.zeros(3))], lr=0.1)


def test_muon_takes_the_matrices_of_the_blocks_and_adam_the_rest(make_model: MakeModel) -> None:
    model = make_model(share_embeddings=False, tie_output=False, positions="learned")
    optimizers = Optimizers(model, "muon")
    names = {name.rpartition(".")[0] for name in optimizers.state(empty=True) if name.endswith("momentum_buffer")}
    assert "encoder_layers.0.self_attention.query_projection.weight" in names
    assert "decoder_layers.1.feed_forward.outer.weight" in names
    rest = {name for name, _ in model.named_parameters()} - names
    assert {"source_embedding.weight", "target_embedding.weight", "output_projection.weight"} < rest
    assert {"source_positions.table", "encoder_norm.weight"} < rest
    assert len(names) == 2 * (4 + 2) + 2 * (8 + 2)


def test_each_optimiser_has_its_own_learning_rate(make_model: MakeModel) -> None:
    model = make_model()
    set_gradients(model, 0)
    before = weights(model)
    Optimizers(model, "muon", adam_factor=0.1, weight_decay=0.0).step(0.01)
    steps = changed(before, model)
    # Adam's first step is the rate itself; Muon's has a root mean square of a fifth of the rate.
    torch.testing.assert_close(steps["encoder_norm.bias"].abs().max().item(), 0.001, rtol=1e-3, atol=0)
    matrix = steps["encoder_layers.0.feed_forward.inner.weight"]
    assert matrix.square().mean().sqrt().item() == pytest.approx(0.002, rel=0.3)


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_a_restored_state_makes_the_same_next_step(make_model: MakeModel, name: str) -> None:
    models = [make_model(), make_model()]
    models[1].load_state_dict(models[0].state_dict())
    first, second = (Optimizers(model, name) for model in models)  # type: ignore[arg-type]
    set_gradients(models[0], 1)
    first.step(0.01)
    models[1].load_state_dict(models[0].state_dict())
    second.restore({key: value.clone() for key, value in first.state().items()})
    for optimizers, model in zip((first, second), models, strict=True):
        set_gradients(model, 2)
        optimizers.step(0.01)
    other = weights(models[1])
    assert all(torch.equal(value, other[key]) for key, value in weights(models[0]).items())
