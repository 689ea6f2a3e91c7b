"""Peers of the engine: how each gets the model of one directory, and the process that runs it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.harness.processes import AskedProcess

ROOT = Path(__file__).parents[2]
DIRECTORY = "directory"
"""Folder of the model in transformers' format, in the folder of all models."""
PRECISIONS = ("float32", "int8")
_PACKAGES = {
    "xuanzang": ("onnxruntime",),
    "ctranslate2": ("ctranslate2",),
    "transformers": ("transformers", "torch"),
    "optimum": ("optimum-onnx", "onnxruntime", "transformers"),
    "openvino": ("openvino", "optimum-intel", "transformers"),
}
ENGINES = tuple(_PACKAGES)
_ENVIRONMENTS = {"optimum": ".venv-peers/optimum", "openvino": ".venv-peers/openvino"}
"""Folders of the environments of engines that cannot be installed with the others."""
_EXPORT_FLAGS = {
    "min-agreement": 0,  # translations of random weights are not measured
    "max-float32-difference": 1,
    "parity-sentences": 1,
    "calibration-sentences": 8,
    "evaluation-sentences": 1,
    "test-sentences": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An engine with one precision of the weights."""

    engine: str
    """One of `ENGINES`."""
    precision: str
    """"float32" or "int8"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Settings that all engines of a run share."""

    folder: Path
    """Folder of all models and logs."""
    environments: Path
    """Folder of the environments."""
    threads: int
    """Threads of each engine."""


PEERS = tuple(Peer(engine=engine, precision=precision) for engine in ENGINES for precision in PRECISIONS)


def python_of(engine: str, environments: Path) -> Path:
    """Return the interpreter of an engine's environment.

    Raises:
        FileNotFoundError: It has not been installed.
    """
    if engine not in _ENVIRONMENTS:
        return Path(sys.executable)
    python = environments / _ENVIRONMENTS[engine] / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"{_ENVIRONMENTS[engine]} is not installed (`.ci/peers {engine}`)")
    return python


def versions_of(engine: str, environments: Path) -> str:
    """Return the packages of an engine with their versions.

    Raises:
        FileNotFoundError: Its environment has not been installed.
        subprocess.CalledProcessError: A package is not in its environment.
    """
    names = _PACKAGES[engine]
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    python = str(python_of(engine, environments))
    found = subprocess.run([python, "-c", code, *names], check=True, capture_output=True, text=True).stdout.split()
    return ", ".join(f"{name} {number}" for name, number in zip(names, found, strict=True))


def start(peer: Peer, setup: Setup, log: IO[str]) -> AskedProcess:
    """Convert the model, unless an earlier run has, and start the engine's process.

    Args:
        peer: Engine and precision.
        setup: Folders and threads.
        log: File for what converters and the process print.

    Raises:
        FileNotFoundError: The engine's environment has not been installed.
        subprocess.CalledProcessError: A converter failed.
    """
    folder, threads = setup.folder, str(setup.threads)
    if peer.engine in ("xuanzang", "ctranslate2"):
        model = _bundle(folder, peer.precision, log) if peer.engine == "xuanzang" else _converted(folder, log)
        return AskedProcess(
            "-m", "benchmarks.engines.worker", peer.engine, str(model), peer.precision, "1", threads, errors=log
        )
    return AskedProcess(
        *(
            "-m",
            "benchmarks.peers.generate_worker",
            peer.engine,
            str(folder / DIRECTORY),
            str(folder),
            peer.precision,
            threads,
        ),
        variables={"OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"},
        python=python_of(peer.engine, setup.environments),
        errors=log,
    )


def _bundle(folder: Path, precision: str, log: IO[str]) -> Path:
    versions = folder / precision / "random"
    if not versions.exists():
        checkpoint = folder / "checkpoint"
        if not checkpoint.exists():
            _run(["xuanzang.model", "import", str(folder / DIRECTORY), f"--output={checkpoint}"], log)
        flags = {"checkpoint": checkpoint, "repository": folder / precision, "model": "random", "precision": precision}
        _run(["xuanzang.export", *(f"--{name}={value}" for name, value in (flags | _EXPORT_FLAGS).items())], log)
    return max(versions.iterdir())


def _converted(folder: Path, log: IO[str]) -> Path:
    converted = folder / "ctranslate2"
    if not converted.exists():
        flags = ("--model", str(folder / DIRECTORY), "--output_dir", str(converted))
        _run(["ctranslate2.converters.transformers", *flags], log)
    return converted


def _run(command: list[str], log: IO[str]) -> None:
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=log, stderr=log)
