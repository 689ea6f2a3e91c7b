"""Settings of torch for training on a GPU."""

from __future__ import annotations

import torch

LENGTH_MULTIPLE = 8
"""Lengths that batches are padded to: masks and matrices whose sizes are no multiples of this take slower kernels."""
_CPU_THREADS = 4
"""The CPU only pads batches and starts kernels."""
_RESERVED_SHARE = 0.6


def prepare_gpu(device: torch.device) -> None:
    """Make a GPU ready for batches whose shapes differ from step to step.

    cuDNN's attention is left out, since it plans anew for every shape, 12 ms a block on an H100: with it a step of
    65,536 tokens took 420 ms instead of 65. Most of the free memory is taken at once, so that the blocks of all sizes
    are cut from one.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    free, _ = torch.cuda.mem_get_info(device)
    torch.empty(int(_RESERVED_SHARE * free), dtype=torch.uint8, device=device)  # freed to torch's own store
    torch.set_num_threads(min(_CPU_THREADS, torch.get_num_threads()))
