"""Parquet files: a column of texts, and one more for the translations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from typing_extensions import override

from xuanzang.batch.errors import ChangedInputError, InputError
from xuanzang.batch.formats.base import Cut, Format, Row
from xuanzang.batch.job import Shard

try:
    import pyarrow as pa
    from pyarrow import parquet as pq
except ImportError as error:
    raise InputError("Parquet needs pyarrow: install the extra batch[parquet]") from error


class Parquet(Format):
    """Tables; shards do not cross row groups, so reading one decodes a single row group."""

    def __init__(self, field: str, output_field: str) -> None:
        """Choose the columns.

        Args:
            field: Column of the texts.
            output_field: Column of the translations.
        """
        self._field = field
        self._output_field = output_field

    @override
    def cuts(self, path: Path, rows: int) -> Iterator[Cut]:
        with _opened(path) as file:
            self._check(path, file.schema_arrow)
            first = 0
            for group in range(file.num_row_groups):
                left = file.metadata.row_group(group).num_rows
                while left:
                    taken = min(rows, left)
                    yield Cut(first_row=first, rows=taken)
                    first += taken
                    left -= taken

    @override
    def read(self, shard: Shard) -> list[Row]:
        texts = _table(shard).column(self._field).to_pylist()
        return [Row(text="", fault="is null") if text is None else Row(text=text) for text in texts]

    @override
    def write(self, shard: Shard, translations: Sequence[str | None], output: BinaryIO) -> None:
        column = pa.array(translations, pa.string())
        pq.write_table(_table(shard).append_column(self._output_field, column), output)

    @override
    def join(self, parts: Iterable[Path], source: Path, output: BinaryIO) -> None:
        with _opened(source) as file:
            schema = file.schema_arrow.append(pa.field(self._output_field, pa.string()))
        with pq.ParquetWriter(output, schema) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part).cast(schema))

    def _check(self, path: Path, schema: Any) -> None:
        if self._output_field in schema.names:
            raise InputError(f"{path} has the column {self._output_field!r} already: choose another --output-field")
        if self._field not in schema.names:
            raise InputError(f"{path} has no column {self._field!r}; its columns: {', '.join(schema.names)}")
        kind = schema.field(self._field).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"the column {self._field!r} of {path} must hold strings, holds {kind}")


def _opened(path: Path) -> Any:
    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is no Parquet file: {error}") from error


def _table(shard: Shard) -> Any:
    with _opened(shard.path) as file:
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first <= shard.first_row < first + rows:
                return file.read_row_group(group).slice(shard.first_row - first, shard.rows)
            first += rows
    raise ChangedInputError(f"{shard.path} is no longer what it was when the job began")
