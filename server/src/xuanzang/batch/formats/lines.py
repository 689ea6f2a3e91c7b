r"""Files of lines, each ended by "\n": plain text, columns between tabs, JSON.

Bytes that are not UTF-8 make one line faulty and are written unchanged.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from typing_extensions import override

from xuanzang.batch.errors import ChangedInputError, RowError
from xuanzang.batch.formats.base import Cut, Format, Row
from xuanzang.batch.job import Shard


class LineFormat(Protocol):
    """Content of a line."""

    def text_of(self, line: str) -> str:
        """Return the text to translate.

        Args:
            line: Line without its end; bytes that are not UTF-8 are lone surrogates.

        Raises:
            RowError: The line has no text.
        """

    def translated(self, line: str, translation: str | None) -> str:
        """Return the line of the output.

        Args:
            line: Line without its end.
            translation: Its translation; None for a faulty line.
        """


class PlainText:
    """A line is a text; the line of the output is its translation, empty for a faulty line."""

    def text_of(self, line: str) -> str:
        """Return the line."""
        return line

    def translated(self, line: str, translation: str | None) -> str:  # noqa: ARG002 - the line is replaced
        """Return the translation alone."""
        return (translation or "").replace("\n", " ")


class TabSeparated:
    """A text is a column; the line of the output has the translation as one more column, empty for a faulty line."""

    def __init__(self, column: int) -> None:
        """Choose the column.

        Args:
            column: Position of the text, 1 for the first.
        """
        self._column = column

    def text_of(self, line: str) -> str:
        """Return the column."""
        columns = line.split("\t")
        if len(columns) < self._column:
            raise RowError(f"has {len(columns)} columns, so none is column {self._column}")
        return columns[self._column - 1]

    def translated(self, line: str, translation: str | None) -> str:
        """Append the translation."""
        return f"{line}\t{(translation or '').translate({9: ' ', 10: ' '})}"


class JsonLines:
    """A text is a value of an object; the object of the output has the translation, null for a faulty line.

    The line is copied, not written anew, so numbers and order are unchanged. A line that is no
    object becomes one with the translation alone; an object that has the key of the translation is unchanged.
    """

    def __init__(self, field: str, output_field: str) -> None:
        """Choose the keys.

        Args:
            field: Key of the text.
            output_field: Key of the translation.
        """
        self._field = field
        self._output_field = output_field

    def text_of(self, line: str) -> str:
        """Return the value of the key."""
        row = _object(line)
        if row is None:
            raise RowError("is no JSON object")
        if self._output_field in row:
            raise RowError(f"has the key {self._output_field!r} already: choose another --output-field")
        text = row.get(self._field)
        if not isinstance(text, str):
            raise RowError(f"has no text with the key {self._field!r}")
        return text

    def translated(self, line: str, translation: str | None) -> str:
        """Add the translation to the object."""
        row = _object(line)
        if row is not None and self._output_field in row:
            return line
        added = f"{json.dumps(self._output_field)}: {json.dumps(translation, ensure_ascii=False)}}}"
        if not row:
            return f"{{{added}"
        return f"{line.rstrip().removesuffix('}').rstrip()}, {added}"


class Lines(Format):
    """Any format of one row per line."""

    def __init__(self, line_format: LineFormat) -> None:
        self._format = line_format

    @override
    def cuts(self, path: Path, rows: int) -> Iterator[Cut]:
        first = offset = 0
        with path.open("rb") as file:
            while sizes := [len(line) for line in islice(file, rows)]:
                yield Cut(first_row=first, rows=len(sizes), offset=offset, size=sum(sizes))
                first += len(sizes)
                offset += sum(sizes)

    @override
    def read(self, shard: Shard) -> list[Row]:
        return [self._row(line) for line in _lines(shard)]

    @override
    def write(self, shard: Shard, translations: Sequence[str | None], output: BinaryIO) -> None:
        output.writelines(
            f"{self._format.translated(line, translation)}\n".encode(errors="surrogateescape")
            for line, translation in zip(_lines(shard), translations, strict=True)
        )

    @override
    def join(self, parts: Iterable[Path], source: Path, output: BinaryIO) -> None:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, output)

    def _row(self, line: str) -> Row:
        try:
            text = self._format.text_of(line)
            text.encode()
        except RowError as error:
            return Row(text=_shown(line), fault=str(error))
        except UnicodeEncodeError as error:
            return Row(text=_shown(line), fault=f"not UTF-8: character {error.start + 1} of the text")
        return Row(text=text)


def _lines(shard: Shard) -> list[str]:
    with shard.path.open("rb") as file:
        file.seek(shard.offset)
        content = file.read(shard.size)
    lines = content.removesuffix(b"\n").split(b"\n")
    if len(content) != shard.size or len(lines) != shard.rows:
        raise ChangedInputError(f"{shard.path} is no longer what it was when the job began")
    if shard.offset == 0:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    return [line.removesuffix(b"\r").decode(errors="surrogateescape") for line in lines]


def _shown(line: str) -> str:
    return line.encode(errors="surrogateescape").decode(errors="replace")


def _object(line: str) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
