"""Jobs over small files, with a translator that turns texts around."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xuanzang.batch.driver import run_job
from xuanzang.batch.job import Job, Shard
from xuanzang.batch.translator import Refusal
from xuanzang.batch.worker import Worker


class Reversing:
    """Turns texts around, refuses those with an exclamation mark, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def translate(self, texts: Sequence[str]) -> list[str | Refusal]:
        """Turn texts around."""
        self.asked += texts
        return [Refusal(reason="too loud") if "!" in text else text[::-1] for text in texts]


@dataclasses.dataclass(kw_only=True)
class RunnableJob:
    """A job and its translator."""

    job: Job
    translator: Reversing = dataclasses.field(default_factory=Reversing)
    progress: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    def run(self, *, stop_after: int | None = None) -> dict[str, float]:
        """Run the job, or let it die after some shards, the last ones first."""

        def shards(missing: Sequence[Shard], folder: Path) -> Iterator[int]:
            worker = Worker(self.job, folder, self.translator)
            for done, shard in enumerate(reversed(missing)):
                if done == stop_after:
                    raise KilledError
                yield worker.run(shard)

        return run_job(self.job, shards, show=lambda done, total: self.progress.append((done, total)))

    def with_job(self, **changes: object) -> RunnableJob:
        """Return the same job with changes, and a new translator."""
        return RunnableJob(job=dataclasses.replace(self.job, **changes))  # type: ignore[arg-type]  # as replace checks

    @property
    def output(self) -> list[str]:
        """Lines of the output."""
        return self.job.output.read_text(encoding="utf-8").splitlines()

    @property
    def failures(self) -> list[dict[str, object]]:
        """Rows of the file of failures."""
        path = self.job.output.with_name(f"{self.job.output.name}.failed.jsonl")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class KilledError(Exception):
    """The end of a process, as far as a test can have it."""


MakeJob = Callable[..., RunnableJob]
"""The fixture `make_job`: content, and optionally row_format and shard_rows."""
