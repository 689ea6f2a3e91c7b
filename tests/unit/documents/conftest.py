from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def parquet() -> Callable[..., bytes]:
    """Return a function that writes a Parquet file with columns "id" and "text", of two row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(values: list[str | None], **options: Any) -> bytes:
        table = pa.table({"id": list(range(len(values))), "text": pa.array(values, pa.string())})
        output = io.BytesIO()
        pq.write_table(table, output, **{"row_group_size": max(1, (len(values) + 1) // 2), **options})
        return output.getvalue()

    return write
