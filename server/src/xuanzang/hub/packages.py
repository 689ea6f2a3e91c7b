"""Packages that pulling and pushing need and that a server does without."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

from xuanzang.server.published import HubError

_CLIENT = "-e 'server[hub]'"
_CONVERSION = "-e model -e 'export[checkpoints]'"
_CONVERSION_MODULES = ("xuanzang.model", "xuanzang.export", "onnx", "sacrebleu", "safetensors", "tqdm")
_STUDENTS = "-e proto -e kernels -e export -e 'server[cpu,pull]'"
_STUDENT_MODULES = ("httpx2", "onnx", "tqdm", "xuanzang.export", "yaml", "zstandard")


def require_client() -> None:
    """Raise HubError, which names the commands that install it, if the hub's client library is missing."""
    if missing := [name for name in ("huggingface_hub", "httpx2") if not find_spec(name)]:
        raise HubError(
            f"{missing[0]} is not installed. In a clone of xuanzang:\n{_command(_CLIENT)}\n"
            f"and for models that are no bundles yet, without PyTorch:\n{_command(_CONVERSION)}"
        )


def require_conversion() -> None:
    """Raise HubError, which names the command that installs them, unless checkpoints can be imported and exported."""
    if missing := [name for name in _CONVERSION_MODULES if not find_spec(name)]:
        raise HubError(
            f"a checkpoint is converted by xuanzang-model and xuanzang-export, and {missing[0]} is not installed. "
            f"In a clone of xuanzang, without PyTorch:\n{_command(_CONVERSION)}"
        )


def require_student_import() -> None:
    """Raise HubError, which names the command that installs them, unless students can be fetched and converted."""
    if missing := [name for name in _STUDENT_MODULES if not find_spec(name)]:
        raise HubError(
            f"{missing[0]} is not installed. In a clone of xuanzang, without PyTorch:\n{_command(_STUDENTS)}"
        )


def _command(packages: str) -> str:
    return f"  {shlex.quote(sys.executable)} -m pip install -c constraints.txt {packages}"
