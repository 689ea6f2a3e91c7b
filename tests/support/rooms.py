"""The distributions of this repository, and the packages that each holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "proto": ("admin", "bundle", "inference", "translation"),
        "kernels": ("kernels",),
        "model": ("model",),
        "export": ("export",),
        "server": ("server", "text", "batch", "hub"),
        "client": ("client", "command", "values", "serving", "documents", "loadtest"),
        "gateway": ("gateway",),
    }
)
"""Packages of the namespace `xuanzang`, by the folder of their distribution."""

ROOMS = tuple(PACKAGES)
