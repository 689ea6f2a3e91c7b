"""The end of a job: parts joined in the order of the input, failures set apart, costs added up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xuanzang.batch.formats import format_of
from xuanzang.batch.job import Job, Source
from xuanzang.batch.job_folder import JobFolder
from xuanzang.batch.planning import Plan
from xuanzang.batch.records import Record, replaced


def failures_file(output: Path) -> Path:
    """Return the file of the rows without a translation, in JSON lines.

    Args:
        output: Output of the job.
    """
    return output.with_name(f"{output.name}.failed.jsonl")


def join(job: Job, plan: Plan, folder: JobFolder) -> dict[str, Any]:
    """Write the output and mark the job as complete; interrupted anywhere, it can be repeated.

    Args:
        job: Job whose shards are all finished.
        plan: Its files and shards.
        folder: Its folder.

    Returns:
        Sums over all shards: lines, failed, characters, core_seconds.
    """
    records = [folder.parts.record(shard.number) for shard in plan.shards]
    if job.input.is_dir():
        job.output.mkdir(exist_ok=True)
    for source in plan.sources:
        target = job.output / source.path.name if job.input.is_dir() else job.output
        parts = [folder.parts.part(shard.number) for shard in plan.shards if shard.path == source.path]
        _join(job, source, parts, target, folder.path)
    _write_failures(records, failures_file(job.output), folder.path)
    totals = _totals(records)
    folder.complete(totals)
    return totals


def _join(job: Job, source: Source, parts: Iterable[Path], target: Path, scratch: Path) -> None:
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
