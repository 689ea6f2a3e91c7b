"""JSON lines: one object per line."""

from __future__ import annotations

import json

from xuanzang.batch.errors import RowError


class JsonLines:
    """A text is a value of an object; the object of the output has the translation, null for a faulty line.

    What stood in the line is copied, not written anew, so that numbers and order stay as they were. A line that is no
    object becomes one that has the translation alone; an object that has the key of the translation stays as it was.
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


def _object(line: str) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
