from __future__ import annotations

import gzip
from pathlib import Path

import keep_translations
import pytest
from keep_translations import is_worthwhile


@pytest.mark.parametrize(
    ("chinese", "english", "kept"),
    [
        ("他在1998年出生于北京。", "He was born in Beijing in 1998.", True),
        ("他在1998年出生于北京。", "He was born in Beijing in 1989.", False),
        ("人口约为12000人。", "The population is about 12,000 people.", True),
        ("他们住在城市的东部。", "They live in the the east of the city.", False),
        ("他们住在城市的东部。", "In the east of the city, in the east of the city.", False),
        ("《三国》（）是一部小说。", "The novel is about three kingdoms.", False),
        ("这是一个很长的句子，讲的是很多不同的事情。", "It is long.", False),
        ("你好", "Hello to you", False),
    ],
)
def test_circles_lost_numbers_and_lost_halves_are_left_out(chinese: str, english: str, kept: bool) -> None:
    assert is_worthwhile(chinese, english) == kept


def test_the_command_writes_pairs_of_files_that_belong_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("zh.txt", "en.txt", "kept.tsv.gz")]
    files[0].write_text("他昨天去了北京。\n他们住在城市的东部。\n", encoding="utf-8")
    files[1].write_text("He went to Beijing yesterday.\nThey live live live there.\n", encoding="utf-8")
    assert keep_translations.main(list(map(str, files))) == 0
    kept = gzip.decompress(files[2].read_bytes()).decode()
    assert kept == "他昨天去了北京。\tHe went to Beijing yesterday.\n"
    files[1].write_text("He went to Beijing yesterday.\n", encoding="utf-8")
    assert keep_translations.main(list(map(str, files))) == 2
    assert "has 2 lines" in capsys.readouterr().err
