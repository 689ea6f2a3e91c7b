"""Processes of benchmarks, engines and servers, and the CPU time that they and others use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, Self

import grpc

START_SECONDS = 120.0
STOP_SECONDS = 30.0
# A server that loads refuses a call in some milliseconds, which it would lack.
RETRY_SECONDS = 0.02
METHOD = "/xuanzang.translation.v1.TranslationService/TranslateText"


NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class AskedProcess:
    """Process that answers each line of JSON on its standard input with one on its standard output."""

    def __init__(
        self,
        *command: str,
        variables: Mapping[str, str] = NO_VARIABLES,
        python: Path = Path(sys.executable),
        errors: IO[str] | None = None,
    ) -> None:
        """Start the process.

        Args:
            command: Arguments of the Python interpreter.
            variables: Environment variables in addition to this process's.
            python: Interpreter, that of another environment for what cannot be installed in this one.
            errors: File for standard error; None shares that of this process.
        """
        self._command = command
        self._process = subprocess.Popen(
            [str(python), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment(), **variables},
        )

    def __enter__(self) -> Self:
        """Return the process, which has been started."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its input, which ends it, and wait."""
        self._process.communicate()

    def ask(self, question: object) -> Any:
        """Send a question and wait for the answer.

        Raises:
            ChildProcessError: The process has ended; its error is on standard error.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin, "a pipe, as asked for"
        assert stdout, "a pipe, as asked for"
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise ChildProcessError(f"{' '.join(self._command)} ended with status {self._process.wait()}")
        return json.loads(answer)


class ServerProcess(AskedProcess):
    """Process of our server or CTranslate2's."""

    def __init__(
        self,
        *command: str,
        address: str,
        request: bytes,
        variables: Mapping[str, str] = NO_VARIABLES,
        errors: IO[str] | None = None,
        python: Path = Path(sys.executable),
    ) -> None:
        """Start the process.

        Args:
            command: Arguments of the Python interpreter.
            variables: Environment variables in addition to this process's.
            errors: File for standard error, where the server logs; None shares that of this process.
            address: Host and port that the server will listen on.
            request: Serialised TranslateTextRequest that the server can answer.
        """
        self.address = address
        self.start_seconds = 0.0
        """Time from the start to the first translation, set by `__enter__`."""
        self._request = request
        self._started = time.perf_counter()
        super().__init__(*command, variables=variables, errors=errors, python=python)

    def __enter__(self) -> Self:
        """Wait for the first translation.

        Raises:
            ChildProcessError: The process has ended, or does not translate in time.
        """
        try:
            self.start_seconds = self._wait_for_translation()
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Send SIGTERM and wait; kill the process if it does not stop."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def resident_megabytes(self) -> float:
        """Return the resident memory of the process, VmRSS."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8").splitlines()
        line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024 / 1e6

    def _wait_for_translation(self) -> float:
        # By default gRPC waits a second before it reconnects.
        backoff = [(f"grpc.{which}_reconnect_backoff_ms", 20) for which in ("initial", "min", "max")]
        with grpc.insecure_channel(self.address, options=backoff) as channel:
            translate: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            while time.perf_counter() - self._started < START_SECONDS:
                try:
                    translate(self._request, timeout=START_SECONDS)
                except grpc.RpcError as error:
                    if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                        raise ChildProcessError(f"the server refuses the first request: {error.details()}") from error
                    if self._process.poll() is not None:
                        status = self._process.returncode
                        raise ChildProcessError(f"{' '.join(self._command)} ended with status {status}") from error
                    time.sleep(RETRY_SECONDS)
                else:
                    return time.perf_counter() - self._started
        raise ChildProcessError(f"the server on {self.address} did not translate within {START_SECONDS} s")


class CpuTimes(NamedTuple):
    """CPU seconds of all cores since a moment in the past."""

    total: float
    """All seconds, idle ones included."""
    busy: float
    """Seconds used by any program."""
    own: float
    """Seconds used by this process and those of its children that have ended."""


def cpu_times() -> CpuTimes:
    """Read the CPU times so far."""
    line = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
    # The first eight fields; the last is time stolen by other machines; guests are part of user.
    seconds = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in line.split()[1:9]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = seconds
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return CpuTimes(total=sum(seconds), busy=busy, own=sum(os.times()[:4]))


def cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def thread_cpu_seconds(pid: int) -> dict[int, float]:
    """Return the processor seconds that each thread of a process has used so far, to the nanosecond.

    The main thread, which has the number of the process, has the event loop of our server.
    """
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {int(thread.name): int((thread / "schedstat").read_text("utf-8").split()[0]) / 1e9 for thread in threads}


def share_of_others(before: CpuTimes, after: CpuTimes) -> float:
    """Return the share of the CPU that other programs and machines used in between, 0 to 1."""
    total, busy, own = (later - earlier for earlier, later in zip(before, after, strict=True))
    return max(0.0, busy - own) / total


def free_address() -> str:
    """Return a loopback address with a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def environment() -> dict[str, str]:
    """Return the environment of measured processes.

    By default CTranslate2 leaves AVX-512 unused on many CPUs. Python keeps compiled modules, as installed ones are.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | ({"CT2_FORCE_CPU_ISA": "AVX512"} if has_avx512() else {})


def has_avx512() -> bool:
    """Return whether this CPU has AVX-512."""
    return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
