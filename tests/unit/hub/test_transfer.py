"""Files from a registry: whole, of the announced sizes and digests, and continued where they stopped."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_stand_in import HubStandIn, serving, zstd

pytest.importorskip("zstandard", reason="needs the extra `pull`")

from xuanzang.hub.registry import Addresses, RegistryFile
from xuanzang.hub.several import published_bundles
from xuanzang.hub.transfer import fetch_file, fetch_registry
from xuanzang.server.published import HubError

CONTENT = random.Random(1).randbytes(204_800)
SENT = zstd(CONTENT)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    monkeypatch.setattr("xuanzang.hub.transfer.time.sleep", lambda _: None)
    with serving(HubStandIn(tmp_path / "hub")) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def announced(sent: bytes = SENT, content: bytes = CONTENT) -> RegistryFile:
    return RegistryFile(
        name="model.bin",
        location="place/of/model.zst",
        size=len(sent),
        sha256=hashlib.sha256(sent).hexdigest(),
        content_size=len(content),
        content_sha256=hashlib.sha256(content).hexdigest(),
    )


def fetched(hub: HubStandIn, file: RegistryFile, folder: Path, sent: bytes = SENT) -> bytes:
    hub.attachments[file.location] = sent
    path = fetch_file(file, hub.attachments_url, folder, print)
    assert [each.name for each in folder.iterdir()] == [file.name]
    return path.read_bytes()


@pytest.mark.parametrize("sent", [SENT, gzip.compress(CONTENT), CONTENT, zstd(CONTENT[:9]) + zstd(CONTENT[9:])])
def test_a_file_comes_whole_in_any_compression(hub: HubStandIn, folder: Path, sent: bytes) -> None:
    file = announced(sent)
    assert fetched(hub, file, folder, sent) == CONTENT
    hub.asked.clear()
    assert fetched(hub, file, folder, sent) == CONTENT
    assert hub.asked == []


def test_a_file_without_digests_comes_whole(hub: HubStandIn, folder: Path) -> None:
    file = RegistryFile(name="vocab.spm", location="v.gz")
    assert fetched(hub, file, folder, gzip.compress(CONTENT)) == CONTENT


def test_faults_that_pass_end_in_the_whole_file_without_a_byte_twice(hub: HubStandIn, folder: Path) -> None:
    hub.faults.extend([("GET /attachments", "503"), ("GET /attachments", "cut"), ("GET /attachments", "cut")])
    assert fetched(hub, announced(), folder) == CONTENT
    assert not hub.faults
    assert hub.sent == len(SENT)


def test_a_part_of_an_earlier_run_is_continued(hub: HubStandIn, folder: Path) -> None:
    (folder / "model.bin.part").write_bytes(SENT[:100])
    assert fetched(hub, announced(), folder) == CONTENT
    assert hub.sent == len(SENT) - 100


@pytest.mark.parametrize("part", [b"other" * 10, b"x" * len(SENT)])
def test_a_part_of_another_file_is_deleted_and_the_next_run_begins_anew(
    hub: HubStandIn, folder: Path, part: bytes
) -> None:
    (folder / "model.bin.part").write_bytes(part)
    assert "came damaged: its SHA-256, as sent, is " in refused(hub, announced(), folder, SENT)
    assert list(folder.iterdir()) == []
    assert fetched(hub, announced(), folder) == CONTENT


def test_a_part_that_is_too_long_is_begun_anew(hub: HubStandIn, folder: Path) -> None:
    (folder / "model.bin.part").write_bytes(SENT + b"more")
    assert fetched(hub, announced(), folder) == CONTENT


def refused(hub: HubStandIn, file: RegistryFile, folder: Path, sent: bytes) -> str:
    hub.attachments[file.location] = sent
    with pytest.raises(HubError) as error:
        fetch_file(file, hub.attachments_url, folder, print)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_damaged_file_is_deleted_with_its_two_digests_named(hub: HubStandIn, folder: Path) -> None:
    damaged = bytes([SENT[0] ^ 1]) + SENT[1:]
    message = refused(hub, announced(), folder, damaged)
    for digest in (hashlib.sha256(damaged).hexdigest(), announced().sha256):
        assert str(digest) in message
    assert list(folder.iterdir()) == []
    assert fetched(hub, announced(), folder) == CONTENT


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"content_sha256": "0" * 64}, "its SHA-256, decompressed, is "),
        ({"content_size": len(CONTENT) - 1}, "bytes, decompressed, not 204799"),
        ({"content_size": len(CONTENT) + 1}, "it has 204800 bytes, decompressed, not 204801"),
        ({"size": 10, "sha256": None}, "sends more than the 10 bytes that model.bin may have"),
    ],
)
def test_a_file_that_is_not_as_announced_is_deleted(
    hub: HubStandIn, folder: Path, changes: dict[str, int | str], reason: str
) -> None:
    file = dataclasses.replace(announced(), **changes)  # type: ignore[arg-type]
    assert reason in refused(hub, file, folder, SENT)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("sent", [zstd(bytes(1 << 26)), gzip.compress(bytes(1 << 26))])
def test_a_bomb_is_stopped_at_the_announced_size(hub: HubStandIn, folder: Path, sent: bytes) -> None:
    file = dataclasses.replace(announced(sent), content_size=1000)
    assert "or more bytes, decompressed, not 1000" in refused(hub, file, folder, sent)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("sent", [SENT[:-9], b"\x28\xb5\x2f\xfd" + b"x" * 50, gzip.compress(CONTENT)[:-9], b""])
def test_a_broken_compression_is_refused(hub: HubStandIn, folder: Path, sent: bytes) -> None:
    assert "came damaged" in refused(hub, announced(sent), folder, sent)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("status", ["204", "301", "302", "403"])
def test_an_answer_without_a_file_is_refused_by_its_status(hub: HubStandIn, folder: Path, status: str) -> None:
    hub.faults.append((r"GET .*/attachments/", status))
    assert f"did not come: HTTP status {status}" in refused(hub, announced(SENT), folder, SENT)
    assert list(folder.iterdir()) == []


def test_a_file_that_is_not_there_is_refused_at_once(hub: HubStandIn, folder: Path) -> None:
    with pytest.raises(HubError, match="did not come: HTTP status 404"):
        fetch_file(announced(), hub.attachments_url, folder, print)
    assert len(hub.asked) == 1


@pytest.mark.parametrize("address", ["", "ftp://a/b", "file:///etc/passwd", "http://", "http://a b/", "http://[", "zh"])
def test_an_option_that_is_no_address_is_refused_by_its_name(address: str) -> None:
    with pytest.raises(HubError, match=r"^--records-url must be an address"):
        fetch_registry(Addresses(records=address), print)


def test_one_attempt_ends_in_time_though_an_answer_never_comes(hub: HubStandIn) -> None:
    hub.faults.append(("GET /records", "stop"))
    with pytest.raises(HubError, match=r"did not come: "):
        fetch_registry(Addresses(records=hub.records_url), print, seconds=2)
    assert len(hub.asked) == 1


def test_pairs_that_are_there_need_one_answer_of_the_registry_and_not_even_that(
    hub: HubStandIn, student_bundle: Callable[[str, bool], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, said = student_bundle("int8", True), list[str]()
    monkeypatch.setenv("XUANZANG_RECORDS_URL", hub.records_url)
    hub.faults.extend([("GET /records", "503")] * 4)
    assert published_bundles("firefox:all", bundle.parents[1], said.append, lambda: None) == [bundle]
    assert hub.asked == ["GET /records"]
    [line] = said
    assert line.endswith("did not come: HTTP status 503; serving 1 of earlier pulls")
