"""Jobs over small files."""

from __future__ import annotations

from pathlib import Path

import pytest
from batch_jobs import MakeJob, RunnableJob

from xuanzang.batch.job import Decoding, Job, RowFormat


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(content: str | bytes, *, row_format: RowFormat | None = None, shard_rows: int = 3) -> RunnableJob:
        source = tmp_path / "corpus"
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
        return RunnableJob(
            job=Job(
                input=source,
                output=tmp_path / "output",
                format=row_format or RowFormat(name="text"),
                decoding=Decoding(model="zh-en/1", manifest_sha256="0" * 64),
                shard_rows=shard_rows,
            )
        )

    return make
