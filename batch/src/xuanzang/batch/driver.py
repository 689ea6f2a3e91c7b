"""A job from its beginning, or from where it stopped, to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from xuanzang.batch.job import Job, Shard
from xuanzang.batch.job_folder import JobFolder
from xuanzang.batch.joining import join
from xuanzang.batch.planning import make_plan

RunShards = Callable[[Sequence[Shard], Path], Iterator[int]]
"""Function that translates shards into a folder of parts and yields the number of each as it is finished."""

ShowProgress = Callable[[int, int], None]
"""Callback with the lines that are done and the lines of the job."""


def run_job(job: Job, run_shards: RunShards, *, show: ShowProgress) -> dict[str, Any]:
    """Translate what is not translated yet, and join it.

    Args:
        job: Job to begin or to continue.
        run_shards: Workers, in this process or elsewhere.
        show: Callback for progress, called first with what earlier runs have done.

    Returns:
        Sums over all shards, as of `join`.

    Raises:
        BatchError: The job cannot go on; what is finished stays finished.
    """
    plan = make_plan(job)
    folder = JobFolder(job.output)
    with folder.claimed(job.identity(plan.sources)):
        totals = folder.totals()
        if totals is not None:
            return totals
        missing = [shard for shard in plan.shards if not folder.parts.is_finished(shard.number)]
        done = plan.rows - sum(shard.rows for shard in missing)
        show(done, plan.rows)
        for number in run_shards(missing, folder.parts.folder) if missing else ():
            done += plan.shards[number].rows
            show(done, plan.rows)
        plan.require_unchanged()
        return join(job, plan, folder)
