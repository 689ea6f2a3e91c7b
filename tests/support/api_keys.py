"""API keys, made as an operator makes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def add_key(file: Path, name: str, *flags: str) -> str:
    """Add a key to a file by the command of the server, and return it.

    Args:
        file: Keys file; made if it is not there.
        flags: Further flags of the command, such as quotas.
    """
    command = [sys.executable, "-m", "xuanzang.command", "keys", "add", name, f"--keys-file={file}", *flags]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
