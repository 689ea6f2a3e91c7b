"""Text of a file in its character encoding, and back to the same bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Self

from xuanzang.client.documents.document import DocumentError

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# As browsers read them (WHATWG Encoding): what is called so is in fact often the larger set.
_LARGER = {"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedText:
    """A text, and how it was encoded."""

    text: str
    """The text without a byte order mark; line ends are as in the file."""
    codec: str
    """Python's name of the encoding."""
    mark: bytes
    """Byte order mark; empty: none."""

    @classmethod
    def decode(cls, raw: bytes, encoding: str | None = None) -> Self:
        """Decode a file.

        Args:
            raw: Content of the file.
            encoding: Name of the encoding; None: UTF-8. A byte order mark says more.

        Raises:
            DocumentError: The encoding is unknown, the bytes are not in it, or would not come back as they were.
        """
        mark, codec = next((each for each in _MARKS if raw.startswith(each[0])), (b"", _codec(encoding)))
        body = raw[len(mark) :]
        try:
            text = body.decode(codec)
        except LookupError as error:
            raise DocumentError(f"unknown encoding {codec!r}") from error
        except UnicodeDecodeError as error:
            at = len(mark) + error.start
            raise DocumentError(f"not {codec}: {error.reason} at byte {at}; name its encoding (--encoding)") from error
        if text.encode(codec) != body:
            raise DocumentError(f"the bytes cannot be restored from {codec}: convert the file to UTF-8")
        return cls(text=text, codec=codec, mark=mark)

    def encode(self, text: str, *, errors: str = "strict") -> bytes:
        """Return a text in the encoding of the file.

        Args:
            text: Text without a byte order mark.
            errors: What becomes of characters that the encoding lacks, as in `str.encode`.

        Raises:
            DocumentError: The encoding lacks a character.
        """
        try:
            return self.mark + text.encode(self.codec, errors)
        except UnicodeEncodeError as error:
            lacking = f"U+{ord(text[error.start]):04X}"
            raise DocumentError(f"{self.codec} has no {lacking}: convert the file to UTF-8") from error


def _codec(encoding: str | None) -> str:
    name = (encoding or "utf-8").lower().replace("_", "-")
    return _LARGER.get(name, name)
