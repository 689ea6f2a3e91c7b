"""The processes of one training run: one, or as many as torchrun started."""

from __future__ import annotations

from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor


class Processes:
    """This process among those of the run."""

    def __init__(self, device: Literal["auto", "cpu", "cuda"]) -> None:
        self.rank, self.count = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        # Each host has as many processes as GPUs, so the rank on the host follows from the rank.
        index = self.rank % max(1, torch.cuda.device_count())
        self.device = torch.device("cuda", index) if device == "cuda" else torch.device("cpu")

    @property
    def is_first(self) -> bool:
        """True if this is the process that validates, logs and saves."""
        return self.rank == 0

    def sum(self, value: float) -> float:
        """Return the sum of a value over all processes; all must call it."""
        if self.count == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return float(tensor.item())

    def sum_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor by the sum over all processes, without waiting for a GPU; all must call it."""
        if self.count > 1:
            dist.all_reduce(tensor)
