"""The work on one shard: read it, translate it, write it, and report it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from xuanzang.batch.formats import Row, format_of
from xuanzang.batch.job import Job, Shard
from xuanzang.batch.planning import digest
from xuanzang.batch.records import Failure, Parts, Record, replaced
from xuanzang.batch.translator import Refusal


class Translates(Protocol):
    """The part of `Translator` that a worker needs."""

    def translate(self, texts: Sequence[str]) -> list[str | Refusal]:
        """Translate texts."""


class Worker:
    """Translates shards of one job; several threads may call it at once.

    A shard that is translated twice, because its worker was thought dead, is written with the same content: the
    translation of a text depends on nothing but the text, the model and the options.
    """

    def __init__(self, job: Job, folder: Path, translator: Translates) -> None:
        """Connect the parts of a worker.

        Args:
            job: Job whose shards follow.
            translator: Translator with the job's options.
        """
        self._format = format_of(job.format)
        self._parts = Parts(folder)
        self._translator = translator
        self._meter = _ProcessorTime()

    def run(self, shard: Shard) -> int:
        """Translate a shard and commit it.

        Returns:
            Its number.
        """
        began = time.monotonic()
        rows = self._format.read(shard)
        results = self._results(rows)
        part = self._parts.part(shard.number)
        with replaced(part) as file:
            self._format.write(shard, [_translation(result) for result in results], file)
        record = Record(
            number=shard.number,
            rows=len(rows),
            characters=sum(len(row.text) for row in rows if not row.fault),
            seconds=time.monotonic() - began,
            core_seconds=self._meter.take(),
            sha256=digest(part),
            failures=_failures(shard, rows, results),
        )
        self._parts.commit(record)
        return shard.number

    def _results(self, rows: Sequence[Row]) -> list[str | Refusal]:
        translated = iter(self._translator.translate([row.text for row in rows if not row.fault]))
        return [Refusal(reason=row.fault) if row.fault else next(translated) for row in rows]


class _ProcessorTime:
    """Processor time of the process, handed out in turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0.0

    def take(self) -> float:
        """Return the seconds since the last time, or since the process began."""
        with self._lock:
            now = time.process_time()
            seconds, self._taken = now - self._taken, now
        return seconds


def _translation(result: str | Refusal) -> str | None:
    return None if isinstance(result, Refusal) else result


def _failures(shard: Shard, rows: Sequence[Row], results: Sequence[str | Refusal]) -> tuple[Failure, ...]:
    return tuple(
        Failure(file=shard.path.name, line=shard.first_row + index, reason=result.reason, text=row.text)
        for index, (row, result) in enumerate(zip(rows, results, strict=True), start=1)
        if isinstance(result, Refusal)
    )
