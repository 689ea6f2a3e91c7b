"""Muon, an optimiser that makes the update of every matrix nearly orthogonal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic polynomial of Jordan et al., whose steep slope at 0 lifts small singular values in few iterations."""
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
            lr: Learning rate; one that suits AdamW suits Muon.
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
