"""Choice of the kernels that the sessions of a server get."""

from __future__ import annotations

import logging

from xuanzang.kernels import Kernels, find_kernels

_LOGGER = logging.getLogger(__name__)


def choose_kernels(provider: str, *, enabled: bool) -> Kernels:
    """Find the kernels for sessions, or the reason that they get none.

    Args:
        provider: "cpu" or "cuda".
        enabled: Whether kernels are wanted.
    """
    if provider != "cpu":
        return Kernels(reason="provider", detail=f"kernels are for CPUs, the provider is {provider}")
    if not enabled:
        return Kernels(reason="disabled", detail="disabled by the setting kernels (--no-kernels)")
    return find_kernels()


def log_kernels(kernels: Kernels) -> None:
    """Log the instruction set of kernels, or why there are none: a warning unless somebody chose so."""
    if kernels.library:
        _LOGGER.info("kernels", extra={"isa": kernels.isa})
        return
    level = logging.INFO if kernels.reason in {"provider", "disabled"} else logging.WARNING
    _LOGGER.log(level, "no kernels", extra={"reason": kernels.reason, "detail": kernels.detail})
