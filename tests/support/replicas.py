"""Server processes that a test or a benchmark stops, kills and restarts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any


class Replica:
    """A server process on a port of its own.

    Args:
        port: Port; 0 for any free one.
    """

    def __init__(self, models: Path, port: int = 0, *flags: str) -> None:
        self._models = models
        self._flags = flags
        self._reading: threading.Thread | None = None
        self.process = self._start(port)
        self.address = f"127.0.0.1:{self._until('listening')['port']}"

    def ready(self) -> None:
        """Wait until the models are warm; what is logged from then on is read and forgotten."""
        self._until("serving")
        assert self.process.stderr is not None
        self._reading = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._reading.start()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        if self._reading is not None:
            self._reading.join()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _start(self, port: int) -> subprocess.Popen[str]:
        flags = (f"--models={self._models}", "--workers=1", f"--address=127.0.0.1:{port}", *self._flags)
        return subprocess.Popen(
            [sys.executable, "-m", "xuanzang.server", *flags, "--metrics-address=127.0.0.1:0"],
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("XUANZANG_")},
        )

    def _until(self, event: str) -> dict[str, Any]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            logged: dict[str, Any] = json.loads(line)
            if logged["event"] == event:
                return logged
        raise AssertionError(f"the server ended before {event!r}")
