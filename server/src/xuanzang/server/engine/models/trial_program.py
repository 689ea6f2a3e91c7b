"""Loads bundles one after another and reports on each; `trial_loader` runs it, and it may end at any of them.

Standard input is one line of JSON with the settings and the folders; standard output gets one line for each folder.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import load_model
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

# Python, onnxruntime and a small model take 200 MB; a graph may ask for any amount.
_BASE_BYTES = 1 << 30
# Weights that are packed for matrix products exist twice for a moment, and once as read.
_WEIGHT_COPIES = 4


def main() -> None:
    """Load the bundles of the request on standard input."""
    request = json.loads(sys.stdin.readline())
    settings = EngineSettings.model_validate(request["settings"])
    # What libraries print must not stand between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _be_killed_first()
    threading.Thread(target=_end_with_server, daemon=True).start()
    print(json.dumps("ready"), file=answers, flush=True)
    for name in request["directories"]:
        directory = Path(name)
        if settings.provider != "cuda":
            # Drivers of GPUs reserve far more than they use.
            _limit_memory(_BASE_BYTES + _WEIGHT_COPIES * _file_bytes(directory))
        outcome = load_model(directory, lambda each: LoadedModel(each, Metrics(CollectorRegistry()), settings))
        reasons = outcome.reasons if isinstance(outcome, BundleError) else ()
        print(json.dumps(reasons), file=answers, flush=True)


def _be_killed_first() -> None:
    """If memory runs out, let the system end this process and not the server."""
    # Only Linux has it, and some sandboxes write-protect it.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_with_server() -> None:
    """Wait until the server closes the input, if only by its end, and end then: a loop may have no other."""
    sys.stdin.read()
    os._exit(1)


def _limit_memory(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _file_bytes(directory: Path) -> int:
    try:
        states = [path.stat() for path in directory.iterdir()]
    except OSError:
        return 0
    return sum(state.st_size for state in states if stat.S_ISREG(state.st_mode))


if __name__ == "__main__":
    main()
