"""The folder next to the output that records its job and the progress."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xuanzang.batch.errors import OtherJobError
from xuanzang.batch.records import Parts, replaced


class JobFolder:
    """`<output>.job`: the description of the job, a lock, the parts, and at the end `_SUCCESS` with the totals."""

    def __init__(self, output: Path, others: Sequence[Path] = ()) -> None:
        """Name the folder.

        Args:
            output: File or folder that the job writes.
            others: Other files that the job writes.
        """
        self._output = output
        self._others = others
        self.path = output.with_name(f"{output.name}.job")
        self.parts = Parts(self.path / "parts")
        self._description = self.path / "job.json"
        self._success = self.path / "_SUCCESS"

    @contextmanager
    def claimed(self, identity: dict[str, Any]) -> Iterator[None]:
        """Hold the folder for one job while no other process has it.

        Raises:
            OtherJobError: The output is there and of another job, or another process holds the folder.
        """
        if not self._description.exists():
            for path in (self._output, *self._others, *self._strange_files()):
                if path.exists() or path.is_symlink():
                    raise OtherJobError(f"{path} exists, and no job of this command wrote it: choose another output")
        self.parts.folder.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OtherJobError(f"another process is writing {self._output}") from None
            self._claim(identity)
            yield

    def totals(self) -> dict[str, Any] | None:
        """Return the totals of the job if it is complete and its output is there."""
        if not (self._success.exists() and self._output.exists()):
            return None
        totals: dict[str, Any] = json.loads(self._success.read_bytes())
        return totals

    def complete(self, totals: dict[str, Any]) -> None:
        """Mark the job as complete and delete the parts, which the output holds.

        Args:
            totals: Sums over all shards.
        """
        with replaced(self._success) as file:
            file.write(json.dumps(totals).encode())
        self._empty()

    def _claim(self, identity: dict[str, Any]) -> None:
        known = json.loads(self._description.read_bytes()) if self._description.exists() else None
        if known != identity:
            if known and (self._output.exists() or self._success.exists() or self.parts.has_records()):
                differing = ", ".join(sorted(key for key in identity if identity[key] != known.get(key)))
                raise OtherJobError(
                    f"{self._output} belongs to a job that differs in: {differing}; choose another output, "
                    f"or delete {self._output} and {self.path}"
                )
            with replaced(self._description) as file:
                file.write(json.dumps(identity, ensure_ascii=False, indent=2).encode())
        if self._success.exists() and not self._output.exists():
            self._success.unlink()
        # Left by a process that was killed.
        for partial in (*self.path.glob(".*.partial"), *self.parts.folder.glob(".*.partial")):
            partial.unlink(missing_ok=True)

    def _strange_files(self) -> Iterator[Path]:
        """Yield what a process that was killed before it described its job would not have left."""
        if self.path.is_dir():
            yield from (each for each in self.path.iterdir() if each.name not in ("lock", "parts"))
            yield from (self.path / "parts").glob("*")

    def _empty(self) -> None:
        self.parts.remove()
        with suppress(OSError):  # somebody keeps other files there
            self.parts.folder.rmdir()
