"""The command `xuanzang batch`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from tqdm import tqdm

from xuanzang.batch.arguments import job_of, parse
from xuanzang.batch.driver import RunShards, failures_file, run_job
from xuanzang.batch.errors import BatchError, InputError
from xuanzang.batch.job import Job
from xuanzang.batch.local import run_locally
from xuanzang.command.parser import fail
from xuanzang.server import BundleError, EngineError

_PROGRAM = "xuanzang batch"
_RAY_DEFAULTS = MappingProxyType(
    {
        # Ray sends statistics of its use to its makers unless it is told not to,
        "RAY_USAGE_STATS_ENABLED": "0",
        # and gives its workers a niceness of 15, so that anything else on the machine starves them.
        "RAY_worker_niceness": "0",
    }
)


def main(arguments: Sequence[str]) -> int:
    """Run the command.

    Args:
        arguments: Arguments from the command's name on.

    Returns:
        The exit code.
    """
    options = parse(arguments[1:])
    began = time.monotonic()
    try:
        job = job_of(options)
        run_shards = _engine(options, job)
        with _stopped_by_signals(), closing(tqdm(unit=" lines", disable=options.quiet or None, smoothing=0.1)) as bar:
            totals = run_job(job, run_shards, show=partial(_show, bar))
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, _Stopped) else signal.SIGINT
        sys.stderr.write(f"{_PROGRAM}: stopped by {number.name}; the same command continues the job\n")
        return 128 + number
    except (BatchError, BundleError, EngineError, OSError) as error:
        return fail(_PROGRAM, str(error))
    print(_cost(totals, time.monotonic() - began))
    if totals["failed"]:
        print(f"{totals['failed']} lines have no translation; the reasons are in {failures_file(job.output)}")
    return 1 if totals["failed"] else 0


class _Stopped(KeyboardInterrupt):
    """A signal ends the job as Ctrl-C does: shards in translation are given up, finished ones are kept."""

    def __init__(self, number: int) -> None:
        self.number = signal.Signals(number)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """End the job in order at SIGTERM and SIGHUP, too; SIGQUIT still ends the process at once."""

    def stop(number: int, _: object) -> NoReturn:
        raise _Stopped(number)

    # Not in a program that calls `main` from a thread, nor what nohup ignores.
    is_main = threading.current_thread() is threading.main_thread()
    taken = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, stop) for number in taken if is_main}
    previous |= {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGUSR1, signal.SIGUSR2) if is_main}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _engine(arguments: argparse.Namespace, job: Job) -> RunShards:
    models = arguments.models.absolute()
    if arguments.engine == "local":
        return partial(run_locally, job, models, cores=arguments.cores or 0)
    for name, value in _RAY_DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        from xuanzang.batch.on_ray import run_on_ray  # noqa: PLC0415 - most installations lack Ray
    except ImportError as error:
        raise InputError("--engine ray needs Ray: install the extra batch[ray]") from error
    return partial(
        run_on_ray,
        job,
        models,
        cores=arguments.cores or 1,
        workers=arguments.workers,
        address=arguments.ray_address,
    )


def _show(bar: Any, done: int, total: int) -> None:
    if bar.total is None:
        # The speed is that of this run.
        bar.reset(total)
        bar.initial = bar.n = done
    bar.update(done - bar.n)


def _cost(totals: dict[str, Any], seconds: float) -> str:
    cores = totals["core_seconds"]
    return (
        f"{totals['lines']} lines, {totals['characters']} characters, "
        f"{seconds:.1f} seconds of this run, {cores:.1f} core-seconds of all runs"
    )


if __name__ == "__main__":
    sys.exit(main(["batch", *sys.argv[1:]]))
