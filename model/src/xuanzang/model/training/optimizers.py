"""The optimisers of a run, Adam for all parameters or Muon for the matrices, and the average of its weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of Jordan et al.'s quintic, whose steep slope at 0 lifts small singular values in few iterations."""
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Momentum whose direction is orthogonalised, for the matrices of hidden layers.

    Matrices of one shape are orthogonalised together: two batched products instead of a hundred small ones, which on a
    GPU would take as long as the model itself. Otherwise equal to `torch.optim.Muon` with
    `adjust_lr_fn="match_rms_adamw"`.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; the scale of the update and
    the weight decay of Liu et al., "Muon is Scalable for LLM Training", arXiv 2502.16982, equation 4.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], *, lr: float, momentum: float = 0.95, weight_decay: float = 0.1
    ) -> None:
        """Take the matrices to optimise.

        Args:
            parameters: Matrices, [rows, columns].
            lr: Learning rate; AdamW's suits Muon.
            momentum: Decay of the moving average of the gradients.
            weight_decay: Share of the weights that is subtracted at each step, times the learning rate.

        Raises:
            ValueError: A parameter is not a matrix.
        """
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        if any(parameter.dim() != 2 for group in self.param_groups for parameter in group["params"]):
            raise ValueError("Muon is for matrices only")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002 - torch's signature
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            with_gradient: list[Tensor] = [parameter for parameter in group["params"] if parameter.grad is not None]
            by_shape = sorted(with_gradient, key=lambda parameter: tuple(parameter.shape))
            for _, parameters in itertools.groupby(by_shape, key=lambda parameter: tuple(parameter.shape)):
                self._update(list(parameters), group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [cast("Tensor", parameter.grad) for parameter in parameters]
        averages = [self._average(parameter) for parameter in parameters]
        torch._foreach_lerp_(averages, gradients, 1 - group["momentum"])
        # Nesterov's momentum: the average as it will be if the next gradient equals this one.
        directions = torch.stack(gradients).lerp_(torch.stack(averages), group["momentum"])
        updates = orthogonalize(directions)
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, _scaled(updates, group["lr"]))

    def _average(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return cast("Tensor", state["momentum_buffer"])


def orthogonalize(matrices: Tensor) -> Tensor:
    """Bring the singular values of matrices near 1, to between 0.5 and 1.5, and keep their singular vectors.

    Args:
        matrices: [matrix, rows, columns].

    Returns:
        [matrix, rows, columns], bfloat16.

    Source: the Newton-Schulz iteration of Jordan et al. 2024, in bfloat16 as there.
    """
    a, b, c = _COEFFICIENTS
    x = matrices.bfloat16()
    if tall := x.size(1) > x.size(2):
        x = x.mT
    x = x / x.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]  # no singular value above 1
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _scaled(updates: Tensor, rate: float) -> list[Tensor]:
    """Return what to add to each matrix: with the root mean square that AdamW's updates have."""
    return list((updates.float() * (-0.2 * rate * math.sqrt(max(updates.shape[1:])))).unbind())


OptimizerName = Literal["adam", "muon"]

_ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")
_MUON_STATE = ("momentum_buffer",)


class Optimizers:
    """One or two optimisers that share the parameters of a model."""

    def __init__(
        self, model: nn.Module, name: OptimizerName, *, adam_factor: float = 1.0, weight_decay: float = 0.0
    ) -> None:
        """Take the parameters of a model.

        Args:
            name: "adam" for every parameter; "muon" for the matrices of the blocks, and Adam for embeddings, norms and
                biases.
            adam_factor: Learning rate of Adam, as a multiple of Muon's.
            weight_decay: Share of Muon's matrices that is subtracted at each step, times the learning rate.
        """
        self._names = {parameter: name for name, parameter in model.named_parameters()}
        matrices = _hidden_matrices(model) if name == "muon" else []
        chosen = set(matrices)
        rest = [parameter for parameter in self._names if parameter not in chosen]
        self._adam = torch.optim.Adam(rest, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self._muon = Muon(matrices, lr=0.0, weight_decay=weight_decay) if matrices else None
        self._adam_factor = adam_factor if matrices else 1.0

    def step(self, rate: float) -> None:
        """Update all parameters at a learning rate and clear their gradients."""
        _step(self._adam, rate * self._adam_factor)
        if self._muon:
            _step(self._muon, rate)

    def state(self, *, empty: bool = False) -> dict[str, Tensor]:
        """Return the changing state, named `parameter.moment`.

        Args:
            empty: Return new tensors of the same names and shapes, which need no step before.
        """
        state: dict[str, Tensor] = {}
        for optimizer, parameter, keys in self._parameters():
            of_parameter = _empty_state(parameter) if empty else optimizer.state[parameter]
            state |= {f"{self._names[parameter]}.{key}": of_parameter[key] for key in keys}
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over tensors that have the names and shapes of `state`."""
        for optimizer, parameter, keys in self._parameters():
            optimizer.state[parameter] = {key: state[f"{self._names[parameter]}.{key}"] for key in keys}

    def _parameters(self) -> list[tuple[torch.optim.Optimizer, nn.Parameter, Sequence[str]]]:
        kinds: list[tuple[torch.optim.Optimizer, Sequence[str]]] = [(self._adam, _ADAM_STATE)]
        if self._muon:
            kinds.append((self._muon, _MUON_STATE))
        return [
            (optimizer, parameter, keys)
            for optimizer, keys in kinds
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]


def _hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices of the blocks: all but embeddings, positions and the output projection."""
    layers = (module for name, module in model.named_children() if isinstance(module, nn.ModuleList))
    return [parameter for module in layers for parameter in module.parameters() if parameter.dim() == 2]


def _step(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _empty_state(parameter: Tensor) -> dict[str, Any]:
    # The fused Adam keeps its step with the parameter, in float32.
    moments = {key: torch.empty_like(parameter) for key in ("exp_avg", "exp_avg_sq", "momentum_buffer")}
    return {"step": torch.zeros((), device=parameter.device), **moments}


class WeightAverage:
    """Exponential moving average of a model's parameters."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay = model, decay
        self.weights = _copy(model)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move towards the weights after a step, counted from 1."""
        # A short memory at first, or the random start would count for a thousand steps.
        decay = min(self._decay, step / (step + 10))
        current = [parameter.detach() for parameter in self._model.parameters()]
        torch._foreach_lerp_(list(self.weights.values()), current, 1 - decay)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Put the averaged weights into the model for the length of the block, in evaluation mode."""
        trained = _copy(self._model)
        _fill(self._model, self.weights)
        self._model.eval()
        try:
            yield
        finally:
            _fill(self._model, trained)
            self._model.train()


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def _fill(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])
