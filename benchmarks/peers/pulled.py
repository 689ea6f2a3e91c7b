"""From nothing to the first translation: one command against a stand-in for the hub on this machine.

    python -m benchmarks.peers.pulled --shape 77m --cast docs/pictures/pull.cast --picture docs/pictures/pull.svg

The weights are random, so the translation means nothing; everything else is what a user of a published model of that
shape sees. Prints one row: what the download took, and the time from its end to the translation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hub_stand_in import HubStandIn, serving
from hub_user import HubUser
from terminal_recording import Recording

from benchmarks.harness.processes import free_address
from benchmarks.peers.random_directory import SHAPES, write_random_directory
from xuanzang.client import TranslationClient, TranslationError

_SENTENCE = "I have two cats."
_ASKED = ("--source", "en", "--target", "zh", "--max-target-length", "10", _SENTENCE)


def main() -> None:
    """Measure, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="77m")
    parser.add_argument("--folder", type=Path, help="folder to keep the checkpoint in (default: a temporary one)")
    parser.add_argument("--cast", type=Path, help="asciicast to write")
    parser.add_argument("--picture", type=Path, help="SVG to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        name = f"example/random-{arguments.shape}"
        folder = (arguments.folder or Path(temporary)) / "hub"
        if not (folder / name).exists():
            write_random_directory(folder / name, SHAPES[arguments.shape])
        home = Path(temporary) / "home"
        home.mkdir()
        with serving(HubStandIn(folder)) as hub:
            recording, address = Recording(), free_address()
            _record(recording, HubUser(home, hub), name, address)
    if arguments.cast:
        recording.write_cast(arguments.cast)
    if arguments.picture:
        recording.write_picture(arguments.picture)
    downloaded, served = recording.seconds_of("2 of 3: import"), recording.seconds_of("$ xuanzang translate")
    print(
        f"| {arguments.shape}, stand-in | download {downloaded:.0f} s | from its end: ready after "
        f"{served - downloaded:.0f} s, first translation after {recording.events[-1][0] - downloaded:.0f} s |"
    )


def _record(recording: Recording, user: HubUser, name: str, address: str) -> None:
    environment = _with_terminal(user.environment)
    program = (sys.executable, "-m", "xuanzang.command")
    flags = ("--address", address, "--metrics-address", "127.0.0.1:0")
    server = recording.run(
        (*program, "serve", name, "--yes", *flags, "--log-level", "warning"),
        environment,
        f"xuanzang serve {name} --yes --log-level warning &",
        until=lambda text: "INFO wrote" in text,
    )
    try:
        _wait(address, server)
        shown = f"xuanzang translate {' '.join(_ASKED[:-1])} '{_SENTENCE}'"
        recording.run((*program, "translate", "--address", address, *_ASKED), environment, shown)
    finally:
        server.terminate()
        server.wait()


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    with TranslationClient(address) as client:
        while server.poll() is None:
            try:
                client.list_models()
            except TranslationError:
                time.sleep(0.1)
            else:
                return
    raise RuntimeError("the server has ended")


def _with_terminal(environment: Mapping[str, str]) -> dict[str, str]:
    # As on a user's own machine: all cores, and a terminal that can move its cursor.
    ours = {name: value for name, value in environment.items() if name != "OMP_NUM_THREADS"}
    return ours | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}


if __name__ == "__main__":
    main()
