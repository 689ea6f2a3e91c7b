"""API keys, made as an operator makes them."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

from xuanzang.command.__main__ import main


def run_keys(file: Path, *arguments: str) -> str:
    """Run `xuanzang keys` on a keys file and return its output."""
    with redirect_stdout(io.StringIO()) as output:
        assert main(["keys", *arguments, f"--keys-file={file}"]) == 0
    return output.getvalue().strip()


def add_key(file: Path, name: str, *flags: str) -> str:
    """Add a key to a file, which is made if it is not there, and return the key.

    Args:
        flags: Further flags of the command, such as quotas.
    """
    return run_keys(file, "add", name, *flags)
