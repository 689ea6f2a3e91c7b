"""Packages that pulling and pushing need and that a server does without."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

from xuanzang.server.published import HubError

_CLIENT = "-e 'server[hub]'"
_CONVERSION = "-e model -e export"
_STUDENTS = "-e proto -e kernels -e export -e 'server[cpu,pull]'"
_STUDENT_MODULES = ("httpx2", "onnx", "tqdm", "xuanzang.export", "yaml", "zstandard")


def require_client() -> None:
    """Raise HubError, which names the commands that install it, if the hub's client library is missing."""
    if missing := [name for name in ("huggingface_hub", "httpx2") if not find_spec(name)]:
        raise HubError(
            f"{missing[0]} is not installed. In a clone of xuanzang:\n{_command(_CLIENT)}\n"
            f"and for models that are no bundles yet, with PyTorch, 2 GB:\n{_command(_CONVERSION)}"
        )


def require_conversion() -> None:
    """Raise HubError, which names the command that installs them, unless checkpoints can be imported and exported."""
    if not all(map(find_spec, ("xuanzang.model", "xuanzang.export", "torch"))):
        raise HubError(
            "a checkpoint is converted by xuanzang-model and xuanzang-export, which are not installed. In a clone of "
            f"xuanzang, with PyTorch, 2 GB:\n{_command(_CONVERSION)}"
        )


def require_student_import() -> None:
    """Raise HubError, which names the command that installs them, unless students can be fetched and converted."""
    if missing := [name for name in _STUDENT_MODULES if not find_spec(name)]:
        raise HubError(
            f"{missing[0]} is not installed. In a clone of xuanzang, without PyTorch:\n{_command(_STUDENTS)}"
        )


def _command(packages: str) -> str:
    return f"  {shlex.quote(sys.executable)} -m pip install -c constraints.txt {packages}"
