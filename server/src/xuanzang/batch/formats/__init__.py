"""Formats of corpora: cut into shards, read, and written with translations."""

from __future__ import annotations

from xuanzang.batch.formats.base import Cut, Format, Row
from xuanzang.batch.formats.lines import JsonLines, Lines, PlainText, TabSeparated
from xuanzang.batch.job import RowFormat

__all__ = ["Cut", "Format", "Row", "format_of"]


def format_of(chosen: RowFormat) -> Format:
    """Return what reads and writes a format.

    Raises:
        InputError: The format needs a package that is not installed.
    """
    match chosen.name:
        case "text":
            return Lines(PlainText())
        case "tsv":
            return Lines(TabSeparated(chosen.column))
        case "jsonl":
            return Lines(JsonLines(chosen.field, chosen.output_field))
        case "parquet":
            # The other formats do without pyarrow.
            from xuanzang.batch.formats.parquet import Parquet  # noqa: PLC0415

            return Parquet(chosen.field, chosen.output_field)
