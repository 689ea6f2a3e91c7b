"""Jobs: every row once and in order, however often they are interrupted; no output of another job is touched."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

import pytest
from batch_jobs import KilledError, MakeJob, RunnableJob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xuanzang.batch.errors import ChangedInputError, InputError, OtherJobError
from xuanzang.batch.job import RowFormat
from xuanzang.batch.translator import Refusal

TEN = "".join(f"row {number}\n" for number in range(10))
TURNED = [line[::-1] for line in TEN.splitlines()]


def folder_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.job")


def killed(make_job: MakeJob, *, after: int) -> RunnableJob:
    """Return a job of ten rows whose process was killed after some shards."""
    job = make_job(TEN)
    with pytest.raises(KilledError):
        job.run(stop_after=after)
    return job


def test_rows_keep_their_order_when_shards_are_finished_in_another(make_job: MakeJob) -> None:
    job = make_job(TEN)
    totals = job.run()
    assert job.output == TURNED
    assert (totals["lines"], totals["failed"], totals["characters"]) == (10, 0, 50)
    assert job.progress == [(0, 10), (1, 10), (4, 10), (7, 10), (10, 10)]


@pytest.mark.parametrize("shards", range(4))
def test_a_job_goes_on_after_the_shards_that_it_had_finished(make_job: MakeJob, shards: int) -> None:
    job = killed(make_job, after=shards)
    assert not job.job.output.exists()
    totals = job.run()
    assert job.output == TURNED
    assert sorted(job.translator.asked) == sorted(TEN.splitlines())
    assert totals["lines"] == 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"))), rows=st.integers(1, 5))
def test_any_text_comes_back_line_by_line(make_job: MakeJob, lines: list[str], rows: int) -> None:
    job = make_job("".join(f"{line}\n" for line in lines), shard_rows=rows)
    job = job.with_job(output=job.job.output.with_name(f"output-{abs(hash((tuple(lines), rows)))}"))
    totals = job.run()
    turned = ["" if "!" in line else line[::-1] for line in lines]
    assert job.job.output.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in turned)
    assert totals["failed"] == sum("!" in line for line in lines)


def test_a_complete_job_is_not_translated_again_unless_its_output_is_gone(make_job: MakeJob) -> None:
    job = make_job(TEN)
    totals = job.run()
    again = job.with_job()
    assert again.run() == totals
    assert again.translator.asked == []
    job.job.output.unlink()
    job.run()
    assert job.output == TURNED


def test_a_damaged_part_is_translated_again(make_job: MakeJob) -> None:
    job = killed(make_job, after=3)
    (folder_of(job.job.output) / "parts" / "00000002.part").write_bytes(b"half a li")
    again = job.with_job()
    again.run()
    assert again.output == TURNED
    assert again.translator.asked == ["row 6", "row 7", "row 8", "row 0", "row 1", "row 2"]


def test_half_written_files_of_a_killed_process_are_removed(make_job: MakeJob) -> None:
    job = killed(make_job, after=1)
    partial = folder_of(job.job.output) / "parts" / ".00000000.part.0123.partial"
    partial.write_bytes(b"half")
    job.run()
    assert sorted(path.name for path in folder_of(job.job.output).iterdir()) == ["_SUCCESS", "job.json", "lock"]


@pytest.mark.parametrize(
    "name", ["output", "output.job/letter", "output.job/parts/00000000.part", "output.failed.jsonl"]
)
def test_files_that_no_job_wrote_are_left_alone(make_job: MakeJob, name: str) -> None:
    job = make_job(TEN)
    mine = job.job.output.parent / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(OtherJobError, match="exists"):
        job.run()
    assert mine.read_text() == "mine"
    assert name != "output" or not folder_of(mine).exists()
    mine.unlink()
    assert job.run()["lines"] == 10


def test_only_parts_of_the_job_are_deleted(make_job: MakeJob) -> None:
    job = killed(make_job, after=1)
    mine = folder_of(job.job.output) / "parts" / "letter"
    mine.write_text("mine")
    job.run()
    assert [path.name for path in mine.parent.iterdir()] == ["letter"]


@pytest.mark.parametrize("is_link", [False, True])
def test_the_input_is_no_output_under_any_name(make_job: MakeJob, *, is_link: bool) -> None:
    job = make_job(TEN)
    source, failures = job.job.input, job.job.output.with_name("output.failed.jsonl")
    if is_link:
        failures.hardlink_to(source)
    else:
        source.rename(failures)
    job = job.with_job(input=source if is_link else failures)
    with pytest.raises(InputError, match="is a file of the input"):
        job.run()
    assert failures.read_text() == TEN


def test_an_output_of_another_job_is_left_alone(make_job: MakeJob) -> None:
    job = make_job(TEN)
    job.run()
    other = job.with_job(shard_rows=5)
    with pytest.raises(OtherJobError, match="differs in: shard_rows"):
        other.run()
    job.job.input.write_text("something else\n")
    with pytest.raises(OtherJobError, match="differs in: files"):
        job.run()
    assert job.output == TURNED


def test_a_job_that_finished_nothing_may_be_changed(make_job: MakeJob) -> None:
    job = killed(make_job, after=0)
    other = job.with_job(shard_rows=5)
    other.run()
    assert other.output == TURNED


def test_two_processes_do_not_write_the_same_output(make_job: MakeJob) -> None:
    job = make_job(TEN)
    folder_of(job.job.output).mkdir()
    with (folder_of(job.job.output) / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OtherJobError, match="another process"):
            job.run()


def test_an_input_that_changes_on_the_way_makes_no_output(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(TEN)
    translate = job.translator.translate

    def changing(texts: Sequence[str]) -> list[str | Refusal]:
        job.job.input.write_text(TEN.replace("row 9", "row x"))
        return translate(texts)

    monkeypatch.setattr(job.translator, "translate", changing)
    with pytest.raises(ChangedInputError, match="changed while it was translated"):
        job.run()
    assert not job.job.output.exists()


def test_rows_without_a_translation_are_set_apart_with_their_reasons(make_job: MakeJob) -> None:
    job = make_job("one\ntwo!\nthree\nfour!\nfive\n", shard_rows=2)
    totals = job.run()
    assert job.output == ["eno", "", "eerht", "", "evif"]
    assert totals["failed"] == 2
    assert job.failures == [
        {"file": "corpus", "line": 2, "reason": "too loud", "text": "two!"},
        {"file": "corpus", "line": 4, "reason": "too loud", "text": "four!"},
    ]


def test_a_folder_becomes_a_folder_with_the_same_files(make_job: MakeJob) -> None:
    job = make_job("")
    folder = job.job.input.with_name("folder")
    folder.mkdir()
    for name, content in (("a.txt", "one\ntwo\n"), ("b.txt", ""), ("c.txt", "three\nfour\nfive\nsix\n")):
        (folder / name).write_text(content)
    job = job.with_job(input=folder)
    with pytest.raises(KilledError):
        job.run(stop_after=1)
    job.run()
    written = {path.name: path.read_text() for path in job.job.output.iterdir()}
    assert written == {"a.txt": "eno\nowt\n", "b.txt": "", "c.txt": "eerht\nruof\nevif\nxis\n"}


def test_the_input_is_never_changed(make_job: MakeJob) -> None:
    job = make_job("one\r\ntwo", row_format=RowFormat(name="tsv"))
    before = job.job.input.stat().st_mtime_ns
    job.run()
    assert (job.job.input.read_bytes(), job.job.input.stat().st_mtime_ns) == (b"one\r\ntwo", before)
