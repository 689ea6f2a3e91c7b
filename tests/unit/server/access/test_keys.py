from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opcodes import opcodes_of
from prometheus_client import CollectorRegistry

from xuanzang.server.access.authentication import KeyRing
from xuanzang.server.access.errors import KeysFileError, QuotaExceededError
from xuanzang.server.access.keys import change_keys, id_of, new_key, read_keys
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.access.quota_counts import SharedCounts
from xuanzang.server.access.quotas import Bucket, Places
from xuanzang.server.engine.errors import InvalidInputError, OverloadedError


def test_a_key_is_recognised_by_what_the_file_holds_of_it_which_shows_nothing(tmp_path: Path) -> None:
    key, entry = new_key("holder")
    change_keys(tmp_path / "keys", lambda _: [entry])
    [read] = read_keys(tmp_path / "keys")
    assert read == entry
    assert id_of(key) == entry.id
    assert (read.is_of(key), read.is_of(key + "x")) == (True, False)
    assert key not in (tmp_path / "keys").read_text()
    assert not any(secret in repr(entry) for secret in (entry.hash, entry.salt))
    made = [new_key("holder") for _ in range(100)]
    assert len({key for key, _ in made}) == len({entry.salt for _, entry in made}) == 100
    assert {len(key) for key, _ in made} == {len("xz_") + 12 + 1 + 64}


@pytest.mark.parametrize("text", ["", "xz_", "xz_a", "xz__b", "yz_a_b", "xz_a b_c", "xz_" + "a" * 65 + "_b"])
def test_what_has_no_form_of_a_key_has_no_id(text: str) -> None:
    assert id_of(text) == ""


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    entries = [new_key(f"holder {number}")[1] for number in range(32)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda entry: change_keys(tmp_path / "keys", lambda old: [*old, entry]), entries))
    assert {entry.id for entry in read_keys(tmp_path / "keys")} == {entry.id for entry in entries}


def test_a_change_that_fails_leaves_the_file_alone(tmp_path: Path) -> None:
    change_keys(tmp_path / "keys", lambda _: [new_key("holder")[1]])
    before = (tmp_path / "keys").read_bytes()
    with pytest.raises(ZeroDivisionError):
        change_keys(tmp_path / "keys", lambda _: [1 // 0])  # type: ignore[list-item]
    assert (tmp_path / "keys").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


def test_the_target_of_a_link_is_replaced_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('{"keys": []}')
    (tmp_path / "real").chmod(0o644)
    (tmp_path / "link").symlink_to("real")
    change_keys(tmp_path / "link", lambda _: [new_key("holder")[1]])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    assert len(read_keys(tmp_path / "real")) == 1


def test_two_entries_with_one_id_are_refused(tmp_path: Path) -> None:
    _, entry = new_key("holder")
    change_keys(tmp_path / "keys", lambda _: [entry, entry])
    with pytest.raises(KeysFileError, match=f"two entries have the id {entry.id}"):
        read_keys(tmp_path / "keys")


def test_a_file_that_others_may_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    change_keys(tmp_path / "keys", lambda old: old)
    with caplog.at_level(logging.WARNING):
        KeyRing(tmp_path / "keys", AccessMetrics(CollectorRegistry()))
        assert not caplog.records
        (tmp_path / "keys").chmod(0o644)
        KeyRing(tmp_path / "keys", AccessMetrics(CollectorRegistry()))
    assert [record.message for record in caplog.records] == ["every user of this machine may read the keys file"]


def test_the_work_to_read_keys_grows_with_their_number(tmp_path: Path) -> None:
    def work(count: int) -> int:
        _, entry = new_key("holder")
        entries = [entry.model_copy(update={"id": f"{number:016x}"}) for number in range(count)]
        change_keys(tmp_path / "keys", lambda _: entries)
        return opcodes_of(lambda: read_keys(tmp_path / "keys"))

    # To compare each with each takes 50 times as much for 8 times as many.
    assert work(400) < 10 * work(50)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    limit=st.integers(1, 10**7), steps=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=1, max_size=20)
)
def test_what_is_refused_passes_after_the_delay_and_not_before(limit: int, steps: list[tuple[float, float]]) -> None:
    clock = Clock()
    bucket = Bucket(limit, clock)
    for pause, share in steps:
        clock.now += pause
        amount = max(1, round(share * limit))
        delay = bucket.seconds_until(amount)
        assert 0 <= delay <= 60.001
        if delay > 0.002:
            clock.now += delay - 0.002
            assert bucket.seconds_until(amount) > 0
            clock.now += 0.002
        clock.now += delay if 0 < delay <= 0.002 else 0
        assert bucket.seconds_until(amount) == 0
        bucket.take(amount)


def test_a_minute_never_gives_more_than_twice_the_quota() -> None:
    clock, taken = Clock(), 0
    bucket = Bucket(100, clock)
    for _ in range(600):
        while bucket.seconds_until(1) == 0:
            bucket.take(1)
            taken += 1
        clock.now += 0.1
    assert 199 <= taken <= 200


def test_a_new_limit_keeps_what_was_used() -> None:
    bucket = Bucket(10, Clock())
    bucket.take(8)
    bucket.change(20)
    assert bucket.seconds_until(12) == 0 < bucket.seconds_until(13)
    bucket.change(None)
    assert bucket.seconds_until(10**9) == 0
    bucket.change(5)
    assert bucket.seconds_until(5) == 0


def test_what_is_given_back_never_overfills() -> None:
    bucket = Bucket(10, Clock())
    bucket.take(-5)
    bucket.take(10)
    assert bucket.seconds_until(1) == 6


def test_the_wait_for_places_follows_how_long_others_held_them() -> None:
    clock = Clock()
    places = Places(4, clock)
    with places.held(1):
        clock.now += 8
    with places.held(4):
        with pytest.raises(OverloadedError) as caught, places.held(2):
            pass
        assert caught.value.retry_after_seconds == 4  # two of four places, each held for 8 seconds
    with places.held(4), pytest.raises(InvalidInputError), places.held(5):
        pass


def test_processes_share_the_quotas_of_a_key(tmp_path: Path) -> None:
    clock = Clock()
    counts = [SharedCounts(tmp_path / "counts", process=process) for process in range(3)]
    clock.now = 1.0
    buckets = [Bucket(10, clock, each.of("key"), 1) for each in counts]
    for bucket in buckets:
        bucket.take(3)
    assert [bucket.seconds_until(1) for bucket in buckets] == [0.0] * 3
    assert [bucket.seconds_until(2) for bucket in buckets] == [6.0] * 3
    assert Bucket(10, clock, counts[0].of("another"), 1).seconds_until(10) == 0
    # Each takes over the changed file in its own time.
    buckets[0].change(20)
    buckets[1].change(20)
    assert [bucket.limit for bucket in buckets] == [20] * 3
    assert buckets[2].seconds_until(11) == 0 < buckets[2].seconds_until(12)


def test_sentences_of_a_process_that_has_ended_are_free_again(tmp_path: Path) -> None:
    clock = Clock()
    ours, others = (SharedCounts(tmp_path / "counts", process=process) for process in range(2))
    places = [Places(4, clock, each.of("key")) for each in (ours, others)]
    with ExitStack() as never_left:
        never_left.enter_context(places[0].held(1))
        never_left.enter_context(places[1].held(3))
        with pytest.raises(QuotaExceededError), places[0].held(1):
            pass
        ours.forget(1)
        with places[0].held(3), pytest.raises(QuotaExceededError), places[0].held(1):
            pass


def test_a_quota_is_exact_over_processes_that_hurry(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from xuanzang.server.access.quota_counts import SharedCounts
from xuanzang.server.access.quotas import Bucket
counts = SharedCounts(Path(sys.argv[1]), process=int(sys.argv[2])).of("key")
with counts.lock():
    bucket, taken = Bucket(1000, lambda: 1.0, counts), 0
for _ in range(2000):
    with counts.lock():
        if not bucket.seconds_until(1):
            bucket.take(1)
            taken += 1
print(taken)
"""
    arguments = [[sys.executable, "-c", script, str(tmp_path / "counts"), str(process)] for process in range(4)]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in arguments]
    assert sum(int(each.communicate()[0]) for each in running) == 1000
