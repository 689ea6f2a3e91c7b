from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opcodes import opcodes_of
from prometheus_client import CollectorRegistry

from xuanzang.server.access.authentication import KeyRing
from xuanzang.server.access.errors import KeysFileError
from xuanzang.server.access.keys import change_keys, id_of, new_key, read_keys
from xuanzang.server.access.metrics import AccessMetrics


def test_a_key_is_recognised_by_what_the_file_holds_of_it(tmp_path: Path) -> None:
    key, entry = new_key("holder")
    change_keys(tmp_path / "keys", lambda _: [entry])
    [read] = read_keys(tmp_path / "keys")
    assert read == entry
    assert id_of(key) == entry.id
    assert read.is_of(key)
    assert not read.is_of(key + "x")
    assert key not in (tmp_path / "keys").read_text()


def test_keys_and_salts_are_never_the_same_twice() -> None:
    made = [new_key("holder") for _ in range(100)]
    assert len({key for key, _ in made}) == len({entry.salt for _, entry in made}) == 100
    assert {len(key) for key, _ in made} == {len("xz_") + 12 + 1 + 64}


def test_an_entry_does_not_show_its_hash() -> None:
    _, entry = new_key("holder")
    assert entry.hash not in repr(entry)
    assert entry.salt not in repr(entry)


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
