"""Kills a command of the program at a chosen change of the file system; Python runs this first if the path has it.

DYING_COMMAND is the command, DYING_AT the number of the change below HOME before which it dies, 0 never. DYING_VICTIM
is "group", all processes, or "parent": the command then goes on when something opens the named pipe DYING_LOG.gate to
write. Files DYING_LOG.COMMAND get a line for each change.
"""

from __future__ import annotations

import os
import signal
import sys

_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate"}


def _watch(at: int, victim: str, home: str, log: int) -> None:
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open":
            changes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        else:
            changes = event in _CHANGES
        if not changes or not isinstance(arguments[0], (str, os.PathLike)):
            return
        if not os.fspath(arguments[0]).startswith(home):
            return
        count += 1
        os.write(log, f"{event} {os.fspath(arguments[0])}\n".encode())
        if count == at:
            if victim == "parent":
                os.kill(os.getppid(), signal.SIGKILL)
                os.close(os.open(f"{os.environ['DYING_LOG']}.gate", os.O_RDONLY))
            else:
                os.killpg(0, signal.SIGKILL)

    sys.addaudithook(hook)


_COMMAND = "".join(sys.orig_argv[3:4])
if "DYING_LOG" in os.environ and _COMMAND in ("pull", "import", "export"):
    _watch(
        int(os.environ["DYING_AT"]) if os.environ["DYING_COMMAND"] == _COMMAND else 0,
        os.environ["DYING_VICTIM"],
        os.environ["HOME"],
        os.open(f"{os.environ['DYING_LOG']}.{_COMMAND}", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    )
