"""Shards on a Ray cluster: Ray Data hands them to a pool of workers, each a process with its own engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
import ray.data

from xuanzang.batch.job import Job, Shard
from xuanzang.batch.local import SHARDS_AT_ONCE
from xuanzang.batch.translator import Translator
from xuanzang.batch.worker import Worker


class RayWorker:
    """A worker as Ray Data wants it; Ray makes another in its place if its process or its node is lost."""

    def __init__(self, job: Job, models: Path, folder: Path, cores: int) -> None:
        self._worker = Worker(job, folder, Translator(models, job.decoding, cores=cores))

    def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        """Translate the shard that the row describes."""
        return {"number": self._worker.run(Shard(**row | {"path": Path(row["path"])}))}


def run_on_ray(
    job: Job, models: Path, shards: Sequence[Shard], folder: Path, *, cores: int, workers: int, address: str
) -> Iterator[int]:
    """Translate shards on a cluster whose nodes all see the files of the job under the same names.

    Args:
        models: Folder of bundles.
        cores: Threads that translate in each worker; Ray reserves as many CPUs.
        workers: Number of workers; 0 for as many as the cluster has room for.
        address: Address of a cluster; "local" for one on this machine, which ends with the job.

    Yields:
        Number of each finished shard.
    """
    ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="WARNING")
    try:
        room = int(ray.cluster_resources()["CPU"]) // cores
        pool = ray.data.ActorPoolStrategy(
            size=max(1, min(workers or room, len(shards))),
            max_tasks_in_flight_per_actor=SHARDS_AT_ONCE + 1,
            max_concurrent_calls_per_actor=SHARDS_AT_ONCE,
            enable_true_multi_threading=True,
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        # One shard is one block, so that it is handed out alone and reported when it is done.
        described = [asdict(shard) | {"path": str(shard.path)} for shard in shards]
        rows = ray.data.from_items(described, override_num_blocks=len(shards))
        finished = rows.map(RayWorker, fn_constructor_args=(job, models, folder, cores), compute=pool, num_cpus=cores)
        for row in finished.iter_rows():
            yield row["number"]
    finally:
        ray.shutdown()
