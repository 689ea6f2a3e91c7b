"""Formats: what is read as the text of a row, and what is written for it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from batch_jobs import MakeJob, RunnableJob
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import Table, parquet

from xuanzang.batch.errors import InputError
from xuanzang.batch.formats.lines import JsonLines
from xuanzang.batch.job import RowFormat
from xuanzang.batch.planning import guess_format

TSV = RowFormat(name="tsv", column=2)
JSONL = RowFormat(name="jsonl")
PARQUET = RowFormat(name="parquet")


def reasons(job: RunnableJob) -> list[tuple[object, object]]:
    return [(each["line"], each["reason"]) for each in job.failures]


def test_a_tsv_gets_one_more_column(make_job: MakeJob) -> None:
    job = make_job("1\tone\tx\n2\n3\tthree\t\n", row_format=TSV)
    job.run()
    assert job.output == ["1\tone\tx\teno", "2\t", "3\tthree\t\teerht"]
    assert reasons(job) == [(2, "has 1 columns, so none is column 2")]


def test_tabs_of_a_translation_make_no_columns(make_job: MakeJob) -> None:
    job = make_job('{"text": "a\\tb\\nc"}\n', row_format=JSONL)
    job.run()
    assert json.loads(job.output[0])["translation"] == "c\nb\ta"
    text = make_job("a\x0bb\n", row_format=RowFormat(name="tsv")).with_job(output=job.job.output.with_name("tsv"))
    text.run()
    assert text.job.output.read_bytes() == b"a\x0bb\tb\x0ba\n"


def test_json_keeps_everything_but_the_translation_as_it_was(make_job: MakeJob) -> None:
    job = make_job('{"n": 1.0, "text" : "one", "big": 12345678901234567890123 }\n{"text":"two"}\n', row_format=JSONL)
    job.run()
    assert job.output == [
        '{"n": 1.0, "text" : "one", "big": 12345678901234567890123, "translation": "eno"}',
        '{"text":"two", "translation": "owt"}',
    ]


def test_lines_that_are_no_rows_fail_alone(make_job: MakeJob) -> None:
    nothing, taken = '{"translation": null}', '{"text": "a", "translation": "b"}'
    rows = {
        '{"text": "one"': nothing,
        "[]": nothing,
        "{}": nothing,
        '{"text": 5}': '{"text": 5, "translation": null}',
        taken: taken,
        '{"text": "\\ud800"}': '{"text": "\\ud800", "translation": null}',
        "": nothing,
        '{"text": "last"}': '{"text": "last", "translation": "tsal"}',
    }
    job = make_job("\n".join(rows) + "\n", row_format=JSONL)
    job.run()
    assert job.output == [*rows.values()]
    assert [line for line, _ in reasons(job)] == [1, 2, 3, 4, 5, 6, 7]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=3)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), st.text(), st.sampled_from([None, 1]))
def test_an_object_stays_an_object_with_one_more_key(row: dict[str, object], translation: str, indent: None) -> None:
    row.pop("translation", None)
    line = json.dumps(row | {"text": "x"}, ensure_ascii=False, indent=indent).replace("\n", " ")
    written = JsonLines("text", "translation").translated(line, translation)
    assert json.loads(written) == json.loads(line) | {"translation": translation}


def test_bytes_that_are_no_text_fail_alone_and_are_kept(make_job: MakeJob) -> None:
    job = make_job(b"1\tone\n2\t\xff\xfe\n3\tthree\n", row_format=TSV)
    job.run()
    assert job.job.output.read_bytes() == b"1\tone\teno\n2\t\xff\xfe\t\n3\tthree\teerht\n"
    assert reasons(job) == [(2, "not UTF-8: character 1 of the text")]


def test_byte_order_mark_and_carriage_returns_are_no_text(make_job: MakeJob) -> None:
    job = make_job(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    job.run()
    assert job.job.output.read_bytes() == b"eno\nowt\neerht\n"


@pytest.fixture
def table(make_job: MakeJob) -> RunnableJob:
    job = make_job("", row_format=PARQUET, shard_rows=2)
    columns = {"id": list(range(7)), "text": ["a b", "two!", None, "", "five", "six", "seven"]}
    parquet.write_table(Table.from_pydict(columns), job.job.input, row_group_size=3)
    return job


def test_parquet_gets_one_more_column(table: RunnableJob) -> None:
    table.run()
    written = parquet.read_table(table.job.output).to_pydict()
    assert written == {
        "id": list(range(7)),
        "text": ["a b", "two!", None, "", "five", "six", "seven"],
        "translation": ["b a", None, None, "", "evif", "xis", "neves"],
    }
    assert reasons(table) == [(2, "too loud"), (3, "is null")]
    # Shards lie in one row group.
    assert table.progress == [(0, 7), (1, 7), (2, 7), (4, 7), (5, 7), (7, 7)]


def test_parquet_without_the_column_is_refused_at_once(table: RunnableJob, make_job: MakeJob) -> None:
    for row_format, message in (
        (RowFormat(name="parquet", field="body"), "no column 'body'; its columns: id, text"),
        (RowFormat(name="parquet", field="id"), "must hold strings, holds int64"),
        (RowFormat(name="parquet", output_field="id"), "has the column 'id' already"),
    ):
        with pytest.raises(InputError, match=message):
            table.with_job(format=row_format).run()
    with pytest.raises(InputError, match="is no Parquet file"):
        make_job("one\n", row_format=PARQUET).run()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("a.txt", "text"),
        ("a.tsv b.TSV", "tsv"),
        ("a.ndjson b.jsonl _SUCCESS", "jsonl"),
        ("a.parquet", "parquet"),
        *((names, None) for names in ("a", "a.txt.gz", "a.txt b.tsv", "")),
    ],
)
def test_the_format_is_told_by_the_names_if_they_tell_one(tmp_path: Path, names: str, found: str | None) -> None:
    for name in names.split():
        (tmp_path / name).touch()
    with nullcontext() if found else pytest.raises(InputError):
        assert guess_format(tmp_path) == found
