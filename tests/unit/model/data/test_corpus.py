from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs


def test_plain_and_gzip_files_read_alike(tmp_path: Path) -> None:
    text = "猫 \tcat\n狗\t dog\tthird column\r\n马\u2028牛\thorse\x85cow\n"
    (tmp_path / "a.tsv").write_text(text, encoding="utf-8", newline="")
    with gzip.open(tmp_path / "a.tsv.gz", "wt", encoding="utf-8", newline="") as file:
        file.write(text)
    expected = [Pair("猫", "cat"), Pair("狗", "dog"), Pair("马\u2028牛", "horse\x85cow")]
    assert list(read_pairs(tmp_path / "a.tsv")) == list(read_pairs(tmp_path / "a.tsv.gz")) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "猫\tcat\nno tab here\n".encode(), r"a\.tsv:2: expected source<TAB>target, found no tab"),
        ("a.tsv", b"\xff\xfe\t\n", r"a\.tsv: .*utf-8"),
        ("a.tsv.gz", b"not gzip", r"a\.tsv\.gz: "),
        ("a.tsv.gz", gzip.compress("猫\tcat\n".encode() * 99, mtime=0)[:-9], r"a\.tsv\.gz: "),
        ("b.tsv", b"", r"a\.tsv: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        list(read_pairs(tmp_path / name.replace("b", "a")))
