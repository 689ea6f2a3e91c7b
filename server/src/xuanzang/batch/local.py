"""Shards in this process, without Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from xuanzang.batch.job import Job, Shard
from xuanzang.batch.translator import Translator
from xuanzang.batch.worker import Worker

SHARDS_AT_ONCE = 2
"""Shards of one worker in translation: the next begins while the last texts of one leave the batches."""


def run_locally(job: Job, models: Path, shards: Sequence[Shard], folder: Path, *, cores: int) -> Iterator[int]:
    """Translate shards with one engine.

    Args:
        models: Folder of bundles.
        cores: Threads that translate; 0 for one per usable core.

    Yields:
        Number of each finished shard.
    """
    with closing(Translator(models, job.decoding, cores=cores)) as translator:
        worker = Worker(job, folder, translator)
        pool = ThreadPoolExecutor(SHARDS_AT_ONCE, thread_name_prefix="shard")
        try:
            for done in as_completed([pool.submit(worker.run, shard) for shard in shards]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)
