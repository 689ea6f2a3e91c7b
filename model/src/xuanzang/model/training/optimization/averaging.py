"""A moving average of the weights, which translates better than the latest weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


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
