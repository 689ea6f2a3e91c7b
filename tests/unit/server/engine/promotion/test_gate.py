from __future__ import annotations

import os
from pathlib import Path

import pytest

from xuanzang.server.engine.errors import ModelStateError
from xuanzang.server.engine.promotion.gate import MAX_BYTES, MAX_CHARACTERS, MAX_PAIRS, read_golden_set


def test_lines_are_sources_and_references(tmp_path: Path) -> None:
    (tmp_path / "zh-en.tsv").write_bytes("我有一只猫。\tI have a cat.\r\n\n你好。\t Hello. \n".encode())
    golden = read_golden_set(tmp_path, "zh-en")
    assert golden.sources == ("我有一只猫。", "你好。")
    assert golden.references == ("I have a cat.", " Hello. ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must have 1 to 1000 lines, has 0"),
        (b"a\tb\n" * (MAX_PAIRS + 1), "must have 1 to 1000 lines, has 1001"),
        (b"a\tb\na\n", "line 2 of the golden set zh-en.tsv must be SOURCE<tab>REFERENCE"),
        (b"a\tb\tc\n", "line 1 of"),
        (b"\n\na\t \n", "line 3 of"),
        (b"a\t" + b"b" * (MAX_CHARACTERS + 1), "each of 1 to 2000 characters"),
        (b"\xff\tb\n", "is not UTF-8"),
        (b"x" * (MAX_BYTES + 1), "has more than 1048576 bytes"),
    ],
)
def test_a_golden_set_that_is_not_valid_is_refused_with_the_limit(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "zh-en.tsv").write_bytes(content)
    with pytest.raises(ModelStateError, match=reason):
        read_golden_set(tmp_path, "zh-en")


def test_what_is_no_golden_set_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "link.tsv").symlink_to("/etc/hostname")
    reasons = {"missing": "is missing", "pipe": "is not a regular file", "link": "outside"}
    for name, reason in reasons.items():
        with pytest.raises(ModelStateError, match=reason):
            read_golden_set(tmp_path, name)
    with pytest.raises(ModelStateError, match="without --golden-sets"):
        read_golden_set(None, "zh-en")
