"""Measure how long a server and a gateway take to end under attack.

    python -m benchmarks.drains_under_attack --of servers

Starts one for each attack, sends SIGTERM in the middle of it, and prints a line of JSON: the seconds until the process
has ended, and its status. Loopback only; needs files for 5,000 connections.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import fair_places, gateway_crowds
from benchmarks.gateway_crowds import MODELS, started

ROOT = Path(__file__).parents[1]
BENCHMARKS = Path(__file__).parent
DRAIN_SECONDS = 5
DRAIN = f"--drain-timeout-seconds={DRAIN_SECONDS}"
FREE = "--address=127.0.0.1:0"
SERVER = ("xuanzang.server", f"--models={MODELS}", FREE, "--metrics-address=127.0.0.1:0")
ATTACKS_OF_FRAMES = ("1024 idle streams", "5000 idle connections", "rapid reset", "fuzz")


@contextmanager
def attacking(script: Path, *arguments: str) -> Iterator[None]:
    """Let a process attack, at a lower priority, once it says that it has begun."""
    command = ("nice", sys.executable, str(script), *arguments)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    attacker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=variables)
    assert attacker.stdout is not None
    try:
        if not attacker.stdout.readline():
            raise RuntimeError(f"the attack did not begin: {' '.join(arguments)}")
        yield
    finally:
        attacker.kill()
        attacker.wait()


def ended(process: subprocess.Popen[str]) -> dict[str, object]:
    """Tell a process to end; return the seconds that it takes, and its status."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    status = process.wait()
    seconds = round(time.monotonic() - began, 1)
    return {"ended_after_s": seconds, "status": status, "in_time": status == 0 and seconds <= DRAIN_SECONDS}


def rows_of_servers(seconds: float, only: str) -> Iterator[dict[str, object]]:
    """Yield a row for each attack on a server."""
    places = [(Path(fair_places.__file__), name) for name in fair_places.ATTACKS]
    for script, name in (*places, *((BENCHMARKS / "attack_floors.py", each) for each in ATTACKS_OF_FRAMES)):
        if only not in name:
            continue
        with started(*SERVER, DRAIN, until="serving") as (process, listening):
            arguments = ["--port", str(listening["port"]), "--attack", name]
            if script.name == "attack_floors.py":
                arguments += ["--metrics-port", str(listening["metrics_port"])]
            with attacking(script, *arguments):
                time.sleep(seconds)
                yield {"attacked": "server", "attack": name, **ended(process)}


def rows_of_gateways(seconds: float, only: str) -> Iterator[dict[str, object]]:
    """Yield a row for each attack on a gateway."""
    crowds = [(Path(gateway_crowds.__file__), name) for name in gateway_crowds.attacks(0)]
    with started(*SERVER, until="serving") as (_, server):
        for script, name in (*crowds, (BENCHMARKS / "document_floors.py", "hostile documents")):
            if only not in name:
                continue
            flags = (f"--server=127.0.0.1:{server['port']}", FREE, DRAIN)
            with started("xuanzang.gateway", *flags, until="listening") as (process, listening):
                arguments = ("--port", str(listening["port"]), "--attack", name)
                with attacking(script, *arguments):
                    time.sleep(seconds)
                    yield {"attacked": "gateway", "attack": name, **ended(process)}


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2, help="between the beginning of an attack and SIGTERM")
    parser.add_argument("--of", choices=("servers", "gateways"), help="measure only one of them")
    parser.add_argument("--only", default="", help="part of the names of the attacks to measure")
    arguments = parser.parse_args()
    for rows, name in ((rows_of_gateways, "gateways"), (rows_of_servers, "servers")):
        if arguments.of in (None, name):
            for row in rows(arguments.seconds, arguments.only):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
