"""Lines of plain text and of columns between tabs."""

from __future__ import annotations

from xuanzang.batch.errors import RowError


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
