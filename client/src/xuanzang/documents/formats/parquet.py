"""Parquet: the strings of named columns; the schema, the metadata, the row groups and all other values stay."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xuanzang.documents.document import IN_PROSE, Document, DocumentError, Limits, ReadSettings, Unit
from xuanzang.documents.formats.tables import chosen_columns
from xuanzang.documents.splicing import parted, translatable

_ROWS_PER_BATCH = 256


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a Parquet file; see `Format`."""
    try:
        file = pq.ParquetFile(pa.BufferReader(raw))
        schema = file.schema_arrow
        indices = chosen_columns(schema.names, settings.columns)
        for index in indices:
            if schema.names.count(schema.names[index]) > 1:
                raise DocumentError(f"two columns have the name {schema.names[index]!r}")
            if not (pa.types.is_string(schema.types[index]) or pa.types.is_large_string(schema.types[index])):
                raise DocumentError(f"column {schema.names[index]!r} holds {schema.types[index]}, not strings")
        return _ParquetDocument(raw, file, _groups(file, settings.limits), [schema.names[index] for index in indices])
    except (pa.ArrowException, OSError) as error:
        raise DocumentError(f"no readable Parquet file: {error}") from error


def _groups(file: Any, limits: Limits) -> list[Any]:
    """Return the row groups, decompressed no further than to the limit."""
    groups, left = [], limits.expanded_bytes
    for number in range(file.num_row_groups):
        batches = []
        for batch in file.iter_batches(batch_size=_ROWS_PER_BATCH, row_groups=[number]):
            left -= batch.nbytes
            if left < 0:
                raise DocumentError(f"larger than {limits.expanded_bytes} bytes, the limit of expanded_bytes")
            batches.append(batch)
        groups.append(pa.Table.from_batches(batches, schema=file.schema_arrow))
    return groups


class _ParquetDocument:
    """A table in row groups."""

    placeholders = IN_PROSE
    unwritten: tuple[Unit, ...] = ()
    is_html = False

    def __init__(self, raw: bytes, file: Any, groups: Sequence[Any], columns: Sequence[str]) -> None:
        self._raw = raw
        self._file = file
        self._groups = groups
        self._columns = columns

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate with their rows and columns."""
        for column in self._columns:
            row = count(1)
            for group in self._groups:
                for value in group.column(column).to_pylist():
                    where = f"row {next(row)}, column {column}"
                    if value is not None and translatable(value):
                        yield Unit(text=value.strip(), where=where)

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations; if nothing changes, the same bytes."""
        groups = [self._translated(group, translations) for group in self._groups]
        if all(ours.equals(theirs) for ours, theirs in zip(groups, self._groups, strict=True)):
            return self._raw
        output = io.BytesIO()
        with pq.ParquetWriter(output, self._file.schema_arrow, compression=self._compression()) as writer:
            for group in groups:
                writer.write_table(group, row_group_size=max(1, group.num_rows))
        return output.getvalue()

    def _translated(self, group: Any, translations: Mapping[str, str]) -> Any:
        for column in self._columns:
            index = group.schema.get_field_index(column)
            values = [_replaced(value, translations) for value in group.column(column).to_pylist()]
            group = group.set_column(index, group.schema.field(index), pa.array(values, group.schema.field(index).type))
        return group

    def _compression(self) -> dict[str, str] | str:
        """Return how each column is compressed."""
        if not self._groups:
            return "NONE"
        group = self._file.metadata.row_group(0)
        columns = [group.column(index) for index in range(group.num_columns)]
        return {column.path_in_schema: column.compression.replace("UNCOMPRESSED", "NONE") for column in columns}


def _replaced(value: str | None, translations: Mapping[str, str]) -> str | None:
    if value is None or not value.strip():
        return value
    before, text, after = parted(value)
    return before + translations.get(text, text) + after
