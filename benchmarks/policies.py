"""Policies of workers in virtual time: who joins a batch when, and who is stepped; the same arrivals for all of them.

    python -m benchmarks.policies [--workers 1 2 8 64] [--loads 0.35 0.52 0.8] [--costs STEP ROW RUN PIECE]

A step takes as long as a formula says, and so does a run of the encoder, which stops the batch that its sentences join.
The costs are measured by `benchmarks.engines.step_time`; lengths are from sentences.tsv. Prints p50 and p95
of the time from arrival to answer; a load of 1 is what full batches can do. Nothing in it depends on the machine.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.harness.bundled_model import SENTENCES

MAX_ROWS = 32
# Characters of a piece on either side, about.
_SOURCE_CHARACTERS, _TARGET_CHARACTERS = 1.6, 4.0


class Costs(NamedTuple):
    """Milliseconds."""

    step: float
    """Of a step, whatever its rows."""
    row: float
    """Of each sentence in a step."""
    run: float
    """Of an encoder run, whatever it encodes."""
    piece: float
    """Of each source piece in it."""


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """One sentence; its steps are known to policies, which real ones predict from the source."""

    arrival: float
    pieces: int
    left: int
    """Steps that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules of a worker."""

    name: str
    patience: float = 1.0
    """Newcomers wait until their joint wait is a multiple of the delay that joining causes."""
    rows: int = MAX_ROWS
    """Most sentences of a batch."""
    stepped: int = MAX_ROWS
    """Most sentences that are stepped together: those with the fewest steps left, less their age in steps."""
    ageing: float = 1.0
    """Steps that a sentence counts as shorter for each step that has been made since its arrival."""
    shortest_first: bool = False
    """Newcomers join by length and not by arrival."""
    stops: bool = True
    """Whether a batch stops for an encoder run; otherwise encoding is free, an idealisation."""


POLICIES = (
    Policy(name="next step", patience=0.0),
    Policy(name="present"),
    Policy(name="half of its wait", patience=0.5),
    Policy(name="twice its wait", patience=2.0),
    Policy(name="at most 8", rows=8),
    Policy(name="at most 8, shortest", rows=8, shortest_first=True),
    Policy(name="8 shortest left", stepped=8, ageing=0.0),
    Policy(name="8 shortest left, ageing", stepped=8, ageing=0.1),
    Policy(name="4 shortest left, ageing", stepped=4, ageing=0.1),
    Policy(name="encoded at no cost, a bound", patience=0.0, stops=False),
)


def jobs_of(lengths: Sequence[tuple[int, int]], *, rate: float, count: int) -> list[Job]:
    """Draw sentences that arrive at random, at a rate per millisecond."""
    draw, now, jobs = random.Random(1), 0.0, []
    for _ in range(count):
        now += draw.expovariate(rate)
        pieces, steps = draw.choice(lengths)
        jobs.append(Job(arrival=now, pieces=pieces, left=steps))
    return jobs


@dataclass(slots=True, eq=False)
class Worker:
    """One worker: its batch, and those of it that are being stepped."""

    batch: list[Job] = field(default_factory=list)
    stepped: list[Job] = field(default_factory=list)


class Server:
    """Workers that share a queue by one policy."""

    def __init__(self, policy: Policy, costs: Costs, *, workers: int) -> None:
        self._policy, self._costs = policy, costs
        self._workers = [Worker() for _ in range(workers)]
        self._running = 0
        self._waiting: list[Job] = []
        # Ends of steps, and looks of workers that let newcomers wait.
        self._events: list[tuple[float, int]] = []

    def serve(self, jobs: Sequence[Job]) -> list[float]:
        """Return the millimilliseconds from each arrival to its answer."""
        taken: list[float] = []
        idle = set(range(len(self._workers)))
        coming = 0
        while coming < len(jobs) or self._events:
            if coming < len(jobs) and (not self._events or jobs[coming].arrival <= self._events[0][0]):
                now = jobs[coming].arrival
                self._waiting.append(jobs[coming])
                coming += 1
            else:
                now, number = heapq.heappop(self._events)
                taken += self._end_step(self._workers[number], now)
                idle.add(number)
            for number in sorted(idle):
                if milliseconds := self._begin_step(self._workers[number], now):
                    idle.discard(number)
                    heapq.heappush(self._events, (now + milliseconds, number))
        return taken

    def _end_step(self, worker: Worker, now: float) -> list[float]:
        for job in worker.stepped:
            job.left -= 1
        done = [job for job in worker.stepped if not job.left]
        worker.batch = [job for job in worker.batch if job.left]
        self._running -= len(done)
        return [now - job.arrival for job in done]

    def _begin_step(self, worker: Worker, now: float) -> float:
        """Let sentences join and begin a step; return how long both take, 0 if there is nothing to do."""
        policy, costs, batch = self._policy, self._costs, worker.batch
        newcomers = self._newcomers(batch, now)
        milliseconds = 0.0
        if newcomers:
            if policy.stops:
                milliseconds = costs.run + costs.piece * sum(job.pieces for job in newcomers)
            batch += newcomers
            self._running += len(newcomers)
            self._waiting = [job for job in self._waiting if job not in newcomers]
        if not batch:
            return 0.0
        if len(batch) > policy.stepped:
            step = costs.step + costs.row * policy.stepped
            batch.sort(key=lambda job: job.left - policy.ageing * (now - job.arrival) / step)
        worker.stepped = batch[: policy.stepped]
        return milliseconds + costs.step + costs.row * len(worker.stepped)

    def _newcomers(self, batch: Sequence[Job], now: float) -> list[Job]:
        waiting, policy = self._waiting, self._policy
        share = math.ceil((self._running + len(waiting)) / len(self._workers))
        room = min(share, policy.rows) - len(batch)
        if not waiting or room <= 0:
            return []
        stopped = min(len(batch), policy.stepped) * self._costs.run
        if sum(now - job.arrival for job in waiting) < policy.patience * stopped:
            return []
        if policy.shortest_first:
            return sorted(waiting, key=lambda job: job.left)[:room]
        return waiting[:room]


def lengths() -> list[tuple[int, int]]:
    """Return source pieces and steps of the sentences of this folder, about."""
    pairs = (line.split("\t")[:2] for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    return [
        (max(2, round(len(source) / _SOURCE_CHARACTERS)), max(2, round(len(target) / _TARGET_CHARACTERS)))
        for source, target in pairs
    ]


def capacity(sizes: Sequence[tuple[int, int]], costs: Costs, *, workers: int) -> float:
    """Return the sentences in a millisecond of full batches that a quarter of their rows join at a time."""
    pieces, steps = statistics.mean(size for size, _ in sizes), statistics.mean(size for _, size in sizes)
    each = steps * (costs.step / MAX_ROWS + costs.row) + costs.run / (MAX_ROWS / 4) + costs.piece * pieces
    return workers / each


def main() -> None:
    """Print a row for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 8, 64])
    parser.add_argument("--loads", type=float, nargs="+", default=[0.35, 0.52, 0.8])
    parser.add_argument("--costs", type=float, nargs=4, default=[0.34, 0.04, 0.85, 0.033], metavar="MS")
    parser.add_argument("--sentences", type=int, default=3000, help="of each worker up to four, and of a run")
    args = parser.parse_args()
    costs, sizes = Costs(*args.costs), lengths()
    for workers in args.workers:
        print(f"{workers} workers, p50 p95 ms at", *(f"{load:>13.2f}" for load in args.loads))
        for policy in POLICIES:
            cells = []
            for load in args.loads:
                count = args.sentences * min(workers, 4)
                rate = load * capacity(sizes, costs, workers=workers)
                taken = Server(policy, costs, workers=workers).serve(jobs_of(sizes, rate=rate, count=count))
                cells.append(f"{statistics.median(taken):6.1f} {statistics.quantiles(taken, n=20)[-1]:6.1f}")
            print(f"  {policy.name:29}", *cells, flush=True)


if __name__ == "__main__":
    main()
