"""Names and entries of DeepL's glossaries."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.gateway.apis.deepl.dictionaries import read_entries
from xuanzang.gateway.apis.deepl.glossaries import new_id
from xuanzang.gateway.errors import RefusedError

PAIR = ("zh", "en")


@given(st.text(max_size=100))
def test_every_name_becomes_one_that_a_file_can_have(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,39}", new_id(name))


def test_names_that_files_can_have_stay_and_others_stay_apart() -> None:
    assert new_id("my-terms.2") == "my-terms.2"
    assert new_id("My terms!").startswith("my-terms-")
    assert len({new_id(name) for name in ("My terms", "my terms", "MY TERMS", "术语", "")}) == 5


def test_entries_are_read_from_both_forms() -> None:
    assert read_entries("猫\tcat\r\n\n狗\tdog\n", "tsv", languages=PAIR) == {"猫": "cat", "狗": "dog"}
    assert read_entries('猫,"a cat, big"\n狗,dog', "csv", languages=PAIR) == {"猫": "a cat, big", "狗": "dog"}


def test_lines_of_csv_may_name_their_languages() -> None:
    text = '猫,cat,zh,en\n狗,"a ""dog""", ZH-Hans,EN-GB\n马,horse'
    assert read_entries(text, "csv", languages=PAIR) == {"猫": "cat", "狗": 'a "dog"', "马": "horse"}


@pytest.mark.parametrize(
    ("text", "form", "fault"),
    [
        ("猫", "tsv", "line 1"),
        ("猫\tcat\n狗\t", "tsv", "line 2"),
        ("猫\tcat\n猫\tdog", "tsv", "once"),
        ('猫,"cat', "csv", "CSV"),
        ("猫,cat,zh", "csv", "line 1"),
        ("猫,cat,zh,en\ncat,猫,en,zh", "csv", "line 2"),
        ("猫\tcat\tzh\ten", "tsv", "line 1"),
        ("猫\tcat", "xml", "tsv"),
    ],
)
def test_faulty_entries_are_refused_by_line(text: str, form: str, fault: str) -> None:
    with pytest.raises(RefusedError) as error:
        read_entries(text, form, languages=PAIR)
    [violation] = error.value.fault.violations
    assert violation.field == ("entries_format" if form == "xml" else "entries")
    assert fault in violation.description
