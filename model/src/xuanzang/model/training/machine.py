"""Resources of a run: memory, GPU, processes, and the signals that interrupt it."""

from __future__ import annotations

import ctypes
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> None:
    """Keep freed memory in the process instead of giving it back to the system.

    By default glibc maps every large block anew, and the kernel zeroes its pages at first touch. A training step frees
    and takes the same hundreds of megabytes each time. Without that, the small preset trains twice as fast: at
    4.9 instead of 2.4 thousand target tokens/s on 2 cores, 3.2 instead of 1.2 on one core of a busy machine. Its first
    8 steps make a quarter of the page faults, as few as with the variables MALLOC_… set before the start, whether this
    is called before or after torch is imported. One arena for all threads, as those beside the first unmap what they
    free regardless.
    Does nothing without glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    for parameter, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1), (_M_TOP_PAD, 2**28), (_M_ARENA_MAX, 1)):
        libc.mallopt(parameter, value)


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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; the second acts as it does elsewhere."""
    stop = threading.Event()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def handle(_number: int, _frame: object) -> None:
        stop.set()
        restore()

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()
