"""Text of a file in its character encoding, and back to the same bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Self

from xuanzang.documents.document import DocumentError

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WINDOWS = (874, *range(1250, 1259))
_ISO_8859 = [part for part in range(1, 17) if part != 12]
# Codecs that take time linear in the file; not all do. Such a name often stands for the larger set, as browsers
# read it (WHATWG Encoding).
_CODECS = {
    **{
        name: name
        for name in ("utf-8", "gb18030", "big5", "shift-jis", "euc-jp", "euc-kr", "koi8-r", "koi8-u", "ascii")
    },
    **dict.fromkeys(("macintosh", "mac", "x-mac-roman"), "mac-roman"),
    **dict.fromkeys(("x-mac-cyrillic", "x-mac-ukrainian"), "mac-cyrillic"),
    **dict.fromkeys(("ibm866", "cp866", "866"), "cp866"),
    "iso-8859-8-i": "iso8859-8",
    "tis-620": "cp874",
    "x-gbk": "gb18030",
    "ks-c-5601-1987": "euc-kr",
    "windows-31j": "cp932",
    "utf8": "utf-8",
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5-hkscs": "big5hkscs",
    "sjis": "shift-jis",
    "x-sjis": "shift-jis",
    **{name: name for name in ("cp932", "cp949", "cp950")},
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in _ISO_8859},
    **dict.fromkeys(("iso-8859-1", "latin-1", "latin1", "us-ascii"), "cp1252"),
    **{f"{prefix}{page}": f"cp{page}" for page in _WINDOWS for prefix in ("windows-", "cp")},
}
_LISTED = (
    "utf-8, utf-16le, utf-16be, gb18030, gbk, gb2312, big5, big5-hkscs, shift_jis, euc-jp, euc-kr, cp932, cp949, "
    "cp950, iso-8859-1 to iso-8859-16, windows-1250 to windows-1258, windows-874, koi8-r, koi8-u, ibm866, macintosh, "
    "x-mac-cyrillic, ascii"
)
_SHOWN_CHARACTERS = 40
# Share of zero bytes in a text; of English in UTF-16 it is a half.
_MAX_ZEROS = 0.25


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
            DocumentError: The encoding is unknown, the bytes are not in it, or would not come back unchanged.
        """
        marked = next((each for each in _MARKS if raw.startswith(each[0])), None)
        mark, codec = marked or (b"", _codec(encoding or "utf-8"))
        body = raw[len(mark) :]
        if not codec.startswith(("utf-16", "utf-32")) and _MAX_ZEROS * len(body) < body.count(0):
            raise DocumentError("looks like UTF-16 without a byte order mark; name its encoding, such as utf-16le")
        try:
            text = body.decode(codec)
        except UnicodeDecodeError as error:
            at = len(mark) + error.start
            advice = "name its encoding, or convert it to UTF-8"
            raise DocumentError(f"not {codec}: {error.reason} at byte {at}; {advice}") from error
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


def _codec(name: str) -> str:
    """Return Python's name of an encoding of the list."""
    codec = _CODECS.get(name.lower().replace("_", "-"))
    if codec is None:
        raise DocumentError(f"unknown encoding {name[:_SHOWN_CHARACTERS]!r}; known: {_LISTED}")
    return codec
