r"""Files of lines, each ended by "\n". Bytes that are not UTF-8 make one line faulty and are written as they were."""

from __future__ import annotations

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
    """What a line holds."""

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
