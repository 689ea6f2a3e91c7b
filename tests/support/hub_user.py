"""A user of a hub of models, who has nothing yet and gives commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hub_stand_in import HubStandIn

from xuanzang.server import find_bundles

_PROGRAM = (sys.executable, "-m", "xuanzang.command")
_SERVER_FLAGS = ("--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--workers=1")


@dataclass(frozen=True, slots=True)
class HubUser:
    """The folders of a user, and the hub that they reach."""

    home: Path
    hub: HubStandIn

    @property
    def repository(self) -> Path:
        """Folder of models that `xuanzang serve` reads by default."""
        return self.home / "data" / "xuanzang" / "models"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of their commands."""
        # The client takes itself for a tool of an assistant where such variables are set, and asks more.
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "TMPDIR")}
        folders = {"HF_HOME": "cache", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache", "HOME": ""}
        places = {name: str(self.home / folder) for name, folder in folders.items()}
        addresses = {"HF_ENDPOINT": self.hub.address, "XUANZANG_RECORDS_URL": self.hub.records_url}
        addresses["XUANZANG_ATTACHMENTS_URL"] = self.hub.attachments_url
        return inherited | places | addresses | {"OMP_NUM_THREADS": "1"}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        return subprocess.run(
            [*_PROGRAM, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment | variables,
            cwd=self.home,
        )

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the program in a process group of its own, with its output to read."""
        return subprocess.Popen(
            [*_PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | variables,
            cwd=self.home,
            start_new_session=True,
        )

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[str]:
        """Serve, and yield the address once the models are there."""
        with self.start("serve", *arguments, *_SERVER_FLAGS) as server:
            assert server.stderr
            try:
                lines = (json.loads(line) for line in server.stderr if line.startswith("{"))
                address = next(f"127.0.0.1:{line['port']}" for line in lines if line["event"] == "listening")
                assert any(line["event"] == "serving" for line in lines)
                yield address
            finally:
                server.terminate()
                server.communicate()

    def served(self) -> list[str]:
        """Return the bundles that a server would find, as MODEL/VERSION."""
        if not self.repository.exists():
            return []
        return [str(folder.relative_to(self.repository)) for folder in find_bundles(self.repository)]
