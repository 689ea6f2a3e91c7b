from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.lexicon import LEXICON, MAX_LEXICON_BYTES, read_lexicon

LISTED = manifest_pb2.Manifest(files=[manifest_pb2.File(name=LEXICON)])


def test_the_entries_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / LEXICON).write_text("hello\t你好\ngood morning\t早上好\n", encoding="utf-8")
    assert read_lexicon(tmp_path, LISTED) == {"hello": "你好", "good morning": "早上好"}


def test_a_file_that_the_manifest_does_not_list_is_not_read(tmp_path: Path) -> None:
    (tmp_path / LEXICON).write_bytes(b"\xff")
    assert read_lexicon(tmp_path, manifest_pb2.Manifest()) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\t\xff\n", "is not UTF-8: invalid start byte at byte 0"),
        (b"a\tb\nhello\n", "line 2: must be a source and a target with one tab between them"),
        (b"a\tb\tc\n", "line 1: must be a source"),
        (b"a \tb\n", "line 1: must be a source"),
        (b"a\t\n", "line 1: must be a source"),
        (b"a\tb\n\nc\td\n", "line 2: must be a source"),
        (b"a\tb\na\tc\n", "line 2: its source is on an earlier line"),
        (b"a" * 41 + b"\tb\n", "line 1: the source must have at most 40 characters, has 41"),
        (b"a\tb\n" * MAX_LEXICON_BYTES, f"has more than {MAX_LEXICON_BYTES} bytes"),
    ],
)
def test_a_file_of_anything_but_pairs_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / LEXICON).write_bytes(content)
    with pytest.raises(BundleError, match=reason):
        read_lexicon(tmp_path, LISTED)
