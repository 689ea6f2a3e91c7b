"""A job from its beginning, or from where it stopped, to its end: parts joined, failures set apart, costs added up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xuanzang.batch.errors import InputError
from xuanzang.batch.formats import format_of
from xuanzang.batch.job import Job, Shard, Source
from xuanzang.batch.job_folder import JobFolder
from xuanzang.batch.planning import Plan, make_plan
from xuanzang.batch.records import Record, replaced

RunShards = Callable[[Sequence[Shard], Path], Iterator[int]]
"""Function that translates shards into a folder of parts and yields the number of each finished one."""

ShowProgress = Callable[[int, int], None]
"""Callback with the lines that are done and the lines of the job."""


def run_job(job: Job, run_shards: RunShards, *, show: ShowProgress) -> dict[str, Any]:
    """Translate the missing shards, and join all.

    Args:
        job: Job to begin or to continue.
        run_shards: Workers, in this process or elsewhere.
        show: Callback for progress, called first with what earlier runs have done.

    Returns:
        Sums over all shards: lines, failed, characters, core_seconds.

    Raises:
        BatchError: The job cannot go on; finished shards are kept.
    """
    plan = make_plan(job)
    _require_inputs_apart(job, plan)
    folder = JobFolder(job.output, others=[failures_file(job.output)])
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
        return _join(job, plan, folder)


def failures_file(output: Path) -> Path:
    """Return the file of the rows without a translation, in JSON lines."""
    return output.with_name(f"{output.name}.failed.jsonl")


def _require_inputs_apart(job: Job, plan: Plan) -> None:
    """Raise InputError if the job would write over a file of its input, under whatever name."""
    names = [source.path.name for source in plan.sources] if job.input.is_dir() else []
    for written in (job.output, failures_file(job.output), *(job.output / name for name in names)):
        for source in plan.sources:
            if written.exists() and written.samefile(source.path):
                raise InputError(f"{written} is a file of the input: choose another output")


def _join(job: Job, plan: Plan, folder: JobFolder) -> dict[str, Any]:
    """Write the output of finished shards and mark the job as complete; interrupted anywhere, it can be repeated."""
    records = [folder.parts.record(shard.number) for shard in plan.shards]
    if job.input.is_dir():
        job.output.mkdir(exist_ok=True)
    for source in plan.sources:
        target = job.output / source.path.name if job.input.is_dir() else job.output
        parts = [folder.parts.part(shard.number) for shard in plan.shards if shard.path == source.path]
        _join_file(job, source, parts, target, folder.path)
    _write_failures(records, failures_file(job.output), folder.path)
    totals = _totals(records)
    folder.complete(totals)
    return totals


def _join_file(job: Job, source: Source, parts: Iterable[Path], target: Path, scratch: Path) -> None:
    with replaced(target, folder=scratch) as output:
        format_of(job.format).join(parts, source.path, output)


def _write_failures(records: Iterable[Record], path: Path, scratch: Path) -> None:
    lines = [json.dumps(asdict(failure), ensure_ascii=False) for record in records for failure in record.failures]
    if lines:
        with replaced(path, folder=scratch) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())


def _totals(records: Iterable[Record]) -> dict[str, Any]:
    totals = {"lines": 0, "failed": 0, "characters": 0, "core_seconds": 0.0}
    for record in records:
        totals["lines"] += record.rows
        totals["failed"] += len(record.failures)
        totals["characters"] += record.characters
        totals["core_seconds"] += record.core_seconds
    return totals
