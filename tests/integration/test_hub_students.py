"""Firefox's students by the commands of a user: from Mozilla's registries, as a stand-in has them, to translations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_stand_in import HubStandIn, serving
from hub_user import HubUser
from marian_students import StudentForm, english_texts, write_student
from tests.integration.conftest import run_each

pytest.importorskip("zstandard", reason="needs the extra `pull`")

from xuanzang.hub.registry import LICENCE

NAME = "firefox:zh-en"
FORM = StudentForm(encoder_layers=1, decoder_layers=1)
TWO_TABLES = StudentForm(encoder_layers=1, decoder_layers=2, has_own_vocabularies=True)


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a student with one vocabulary."""
    folder = tmp_path_factory.mktemp("students") / "zh-en"
    write_student(folder, FORM, english_texts())
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a student with a vocabulary for each side."""
    folder = tmp_path_factory.mktemp("students") / "en-zh"
    write_student(folder, TWO_TABLES, english_texts(), seed=2)
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubStandIn]:
    with serving(HubStandIn(tmp_path / "hub")) as running:
        yield running


@pytest.fixture
def user(hub: HubStandIn, tmp_path: Path) -> HubUser:
    return HubUser(tmp_path, hub)


def files(hub: HubStandIn) -> list[str]:
    return [each.rpartition("/")[2] for each in hub.asked if "/attachments/" in each]


@pytest.mark.slow
def test_two_pairs_are_pulled_and_served_by_one_command(
    user: HubUser, hub: HubStandIn, student: Path, other: Path
) -> None:
    hub.publish(student, "zh-Hans", "en")
    hub.publish(other, "en", "zh-Hans")
    with user.serving(NAME, "firefox:en-zh", "--yes") as address:
        done = user.run("translate", "--address", address, "--target", "zh", "The cat likes a river today.")
        back = user.run("translate", "--address", address, "--source", "zh", "The dog finds a letter.")
        listed = user.run("models", "--address", address, "--json")
    assert done.returncode == back.returncode == 0, done.stderr + back.stderr
    models = {each["source_model"]: each for each in map(json.loads, listed.stdout.splitlines())}
    assert set(models) == {NAME, "firefox:en-zh"}
    for model in models.values():
        assert model["licence"] == LICENCE
        assert model["precision"] == "int8"


def test_a_pull_states_the_licence_and_keeps_digests_of_what_it_read(
    user: HubUser, hub: HubStandIn, student: Path
) -> None:
    records = hub.publish(student, "zh-Hans", "en")
    done = user.run("pull", NAME)
    assert done.returncode == 0, done.stderr
    assert f"xuanzang: licence: {LICENCE}" in done.stderr.splitlines()
    bundle = Path(done.stdout.strip())
    assert bundle == user.repository / "firefox-zh-en" / "1"
    source = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))["provenance"]["source"]
    digests = {record["decompressedHash"] for record in records}
    assert set(source["file_sha256"].values()) == digests
    [weights] = [record["decompressedHash"] for record in records if record["fileType"] == "model"]
    assert (source["name"], source["revision"], source["licence"]) == (NAME, f"3.0-{weights[:12]}", LICENCE)
    hub.asked.clear()
    assert user.run("pull", NAME).stdout == done.stdout
    assert files(hub) == []


def test_a_newer_release_becomes_the_next_version(user: HubUser, hub: HubStandIn, student: Path, other: Path) -> None:
    hub.publish(student, "zh-Hans", "en")
    first = user.run("pull", NAME)
    hub.publish(other, "zh-Hans", "en", version="3.1")
    second = user.run("pull", NAME)
    assert [Path(each.stdout.strip()).name for each in (first, second)] == ["1", "2"], second.stderr


def test_models_json_is_listed_and_serves_as_well(user: HubUser, hub: HubStandIn, student: Path) -> None:
    hub.publish(student, "zh", "en")
    hub.publish(student, "en", "de", architecture="tiny")
    address = ("--records-url", hub.models_url)
    listed, done = run_each(
        user, ["models", "available", "firefox:all", *address], ["pull", NAME, *address, "--attachments-url", ""]
    )
    assert done.returncode == 0, done.stderr
    assert user.served() == ["firefox-zh-en/1"]
    size = f"{(student / 'model.bin').stat().st_size / 1e6:.1f}"
    assert [line.split(maxsplit=4) for line in listed.stdout.splitlines()[1:]] == [
        [name, architecture, "-", size, "MB  bleu 29.04, comet22 0.862"]
        for name, architecture in (("firefox:en-de", "tiny"), (NAME, "base-memory"))
    ]


def test_a_folder_becomes_a_bundle_and_its_name_says_the_languages(user: HubUser, student: Path) -> None:
    done = user.run("pull", str(student))
    assert done.returncode == 1
    assert "their languages: give --source-language and --target-language" in done.stderr
    done = user.run("pull", str(student), "--source-language", "zh", "--target-language", "en", "--name", "mine")
    assert done.returncode == 0, done.stderr
    assert user.served() == ["mine/1"]


def test_a_file_that_is_not_the_registrys_is_never_served(user: HubUser, hub: HubStandIn, student: Path) -> None:
    records = hub.publish(student, "zh-Hans", "en")
    record = next(record for record in records if record["fileType"] == "vocab")
    hub.faults.append(("GET .*vocab", "damage"))
    sent = user.run("pull", NAME)
    record["decompressedHash"] = "0" * 64
    whole = user.run("pull", NAME)
    for done in (sent, whole):
        assert (done.returncode, done.stdout) == (1, "")
        assert "vocab.spm came damaged: its SHA-256" in done.stderr.splitlines()[-1]
    assert user.served() == []


def test_what_cannot_be_had_is_said_in_one_line(user: HubUser, hub: HubStandIn, student: Path, tmp_path: Path) -> None:
    hub.publish(student, "de", "en", architecture="transformer-big")
    publish_broken(hub, student, tmp_path)
    expected = {
        ("firefox:zh-en",): "Firefox Translations has no model firefox:zh-en",
        ("firefox:zh",): "'firefox:zh' names no pair of languages, as firefox:zh-en does",
        ("firefox:de-en",): "is of the architecture 'transformer-big', none of those that can be imported",
        ("firefox:fr-en",): "the conversion ended with status 1; the lines above say why",
        ("firefox:zh-en", "--records-url", "zh"): "--records-url must be an address such as",
        ("firefox:zh-en", "--records-url", f"{hub.address}/nowhere"): "did not come: HTTP status 404",
        ("firefox:zh-en", "--records-url", hub.address + "/api/validate-yaml"): "answers with no list of",
    }
    every = run_each(user, *(["pull", *arguments] for arguments in expected))
    for done, message in zip(every, expected.values(), strict=True):
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert message in done.stderr.splitlines()[-1]
    assert user.served() == []


def publish_broken(hub: HubStandIn, student: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    for path in student.iterdir():
        (tmp_path / "broken" / path.name).write_bytes(path.read_bytes()[:5000])
    hub.publish(tmp_path / "broken", "fr", "en")


def publish_three(hub: HubStandIn, student: Path, other: Path, tmp_path: Path) -> None:
    """Publish two pairs that can be had, and one of broken files between them."""
    hub.publish(student, "zh-Hans", "en")
    hub.publish(other, "en", "zh-Hans")
    publish_broken(hub, student, tmp_path)


def test_all_pairs_are_pulled_and_one_that_fails_is_named(
    user: HubUser, hub: HubStandIn, student: Path, other: Path, tmp_path: Path
) -> None:
    publish_three(hub, student, other, tmp_path)
    hub.publish(student, "de", "en", architecture="transformer-big")
    done = user.run("pull", "firefox:all")
    bundles = [user.repository / f"firefox-{pair}" / "1" for pair in ("en-zh", "zh-en")]
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == list(map(str, bundles)), done.stderr
    sizes = "firefox:all: 3 of 3 pairs to pull; "
    [line] = [line for line in done.stderr.splitlines() if sizes in line]
    sent = sum(record["attachment"]["size"] for record in hub.records if record["sourceLanguage"] != "de")
    assert f"; {sent / 1e6:.0f} MB to download, " in line
    assert "2 pairs failed: firefox:de-en, firefox:fr-en; " in done.stderr.splitlines()[-1]
    hub.asked.clear()
    again = user.run("pull", "firefox:all")
    assert again.stdout == done.stdout
    assert files(hub) == []
    assert "firefox:all: 1 of 3 pairs to pull; " in again.stderr


def test_all_pairs_go_on_where_they_were_killed(user: HubUser, hub: HubStandIn, student: Path, other: Path) -> None:
    hub.publish(other, "en", "zh-Hans")
    records = hub.publish(student, "zh-Hans", "en")
    last = records[-1]["attachment"]["location"].rpartition("/")[2]
    hub.faults.append((f"GET .*{last}", "stop"))
    with user.start("pull", "firefox:all") as process:
        hub.stopped.acquire()
        process.kill()
        process.communicate()
    assert user.served() == ["firefox-en-zh/1"]
    hub.asked.clear()
    done = user.run("pull", "firefox:all")
    assert done.returncode == 0, done.stderr
    assert files(hub) == [last]


@pytest.mark.slow
def test_all_pairs_are_served_on_demand_and_again_without_the_registry(
    user: HubUser, hub: HubStandIn, student: Path, other: Path, tmp_path: Path
) -> None:
    publish_three(hub, student, other, tmp_path)
    declined = user.run("serve", "firefox:all")
    assert (declined.returncode, user.served()) == (1, [])
    assert "firefox:all: 3 of 3 pairs to pull; " in declined.stderr
    assert f"firefox:all is not in {user.repository}: --yes pulls it" in declined.stderr
    for flags in (("--yes",), ()):
        with user.serving("firefox:all", *flags) as address:
            before = user.run("models", "--address", address, "--json")
            done = user.run("translate", "--address", address, "--target", "zh", "The cat likes a river today.")
        assert done.returncode == 0, done.stderr
        models = {each["source_model"]: each for each in map(json.loads, before.stdout.splitlines())}
        assert {name: model["residency"] for name, model in models.items()} == {
            NAME: "on_demand",
            "firefox:en-zh": "on_demand",
        }
        hub.records.clear()


def test_flags_of_one_model_are_refused_for_all_pairs(user: HubUser, hub: HubStandIn, student: Path) -> None:
    hub.publish(student, "zh-Hans", "en")
    of_one = (["--name", "mine"], ["--source-language", "zh"], ["--revision", "main"])
    *every, named = run_each(
        user, *(["pull", "firefox:all", *flags] for flags in of_one), ["pull", NAME, "--revision", "main"]
    )
    for done, flags in zip(every, of_one, strict=True):
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{flags[0]} is for one model; firefox:all stands for many" in done.stderr
    assert "firefox:zh-en has no --revision" in named.stderr
    assert user.served() == []
