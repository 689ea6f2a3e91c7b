"""The optimisers of a run: Adam for all parameters, or Muon for the matrices and Adam for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from xuanzang.model.training.optimization.muon import Muon

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
            adam_factor: Learning rate of Adam beside Muon, as a multiple of Muon's.
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
        """Return all that changes from step to step, named `parameter.moment`.

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
    # The fused Adam keeps its step beside the parameter, in float32.
    moments = {key: torch.empty_like(parameter) for key in ("exp_avg", "exp_avg_sq", "momentum_buffer")}
    return {"step": torch.zeros((), device=parameter.device), **moments}
