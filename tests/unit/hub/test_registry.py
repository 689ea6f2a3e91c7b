"""Mozilla's registries: which model a pair of languages means, and that nothing they say leads anywhere else."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.hub.commands import available_command
from xuanzang.hub.pulling import bundle_name, require_room
from xuanzang.hub.registry import Registry, parse_registry
from xuanzang.server.published import HubError, is_student_name

DIGEST = "0123456789abcdef" * 4


def record(kind: str = "model", **fields: Any) -> dict[str, Any]:
    """Return a record of Remote Settings, of a file for Chinese to English."""
    whole: dict[str, Any] = {
        "name": f"{kind}.zhen",
        "fileType": kind,
        "sourceLanguage": "zh-Hans",
        "targetLanguage": "en",
        "architecture": "base",
        "version": "3.0",
        "decompressedHash": DIGEST,
        "decompressedSize": 100,
        "filter_expression": "",
        "attachment": {"hash": DIGEST, "size": 50, "location": f"main/{kind}.zst", "filename": kind, "mimetype": ""},
    }
    return whole | fields


def files(**fields: Any) -> list[dict[str, Any]]:
    """Return the records of a whole model."""
    return [record("model", **fields), record("vocab", **fields), record("lex", **fields)]


def parsed(records: list[Any]) -> Registry:
    return parse_registry(json.dumps({"data": records}).encode(), "http://mirror/records")


def entry(**fields: Any) -> dict[str, Any]:
    """Return an entry of models.json."""
    places: dict[str, dict[str, Any]] = {
        kind: {"path": f"models/{kind}.gz"} for kind in ("model", "vocab", "lexicalShortlist")
    }
    places["model"] |= {"uncompressedSize": 100, "uncompressedHash": DIGEST}
    whole = {"architecture": "base", "releaseStatus": "Release", "sourceLanguage": "zh", "targetLanguage": "en"}
    return whole | {"files": places, "metrics": {"flores200-plus": {"bleu": 29.04}}} | fields


def of_entries(entries: list[Any]) -> Registry:
    listing = {"generated": "", "baseUrl": "https://files.example", "models": {"zh-en": entries}}
    return parse_registry(json.dumps(listing).encode(), "http://mirror/models.json")


def test_the_newest_release_for_any_device_is_chosen_with_all_its_files() -> None:
    registry = parsed(
        [
            *files(version="3.9"),
            *files(version="3.10", architecture="base-memory"),
            *files(version="3.11", filter_expression="env.appinfo.OS == 'Android'"),
            *files(version="3.12a1"),
            *files(version="4.0"),
            *files(version="2.0"),
            *files(sourceLanguage="de", version="3.20"),
        ]
    )
    model = registry.newest("firefox:zh-en")
    assert (model.name, model.version, model.architecture) == ("firefox:zh-en", "3.10", "base-memory")
    assert {file.name for file in model.files} == {"model.bin", "vocab.spm", "lex.bin"}
    assert model.revision == "3.10-0123456789ab"
    assert registry.newest("firefox:zh-Hans-en") == model
    assert model.languages == ("zh", "en")


def test_the_larger_of_two_models_of_one_version_is_chosen() -> None:
    large = [record("model", decompressedSize=200), record("vocab")]
    registry = parsed([*files(architecture="tiny"), *large, *files(architecture="base-memory")])
    assert registry.newest("firefox:zh-en").architecture == "base"


def test_models_json_has_scores_and_what_is_released() -> None:
    registry = of_entries(
        [entry(architecture="tiny"), entry(), entry(releaseStatus=None), entry(releaseStatus="Release Android")]
    )
    assert [model.architecture for model in registry.models] == ["tiny", "base"]
    model = registry.newest("firefox:zh-en")
    assert model.scores == {"bleu": 29.04}
    assert registry.files_address == "https://files.example"
    [weights] = [file for file in model.files if file.name == "model.bin"]
    assert (weights.content_sha256, weights.content_size, weights.sha256) == (DIGEST, 100, None)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "Firefox Translations has no model firefox:zh-en"),
        (files(sourceLanguage="de"), "no model firefox:zh-en; it has firefox:de-en"),
        (
            files(architecture="huge"),
            "of the architecture 'huge', none of those that can be imported: tiny, base",
        ),
        ([record("model"), record("lex")], "the registry lists only a part of the files of firefox:zh-en: model, lex"),
        ([record("vocab")], "the registry lists only a part of the files of firefox:zh-en: vocab"),
        ([record("model"), record("srcvocab")], "lists only a part of the files of firefox:zh-en: model, srcvocab"),
        ([*files(), record("model")], "the registry lists several files of one kind for firefox:zh-en 3.0"),
        ([record("model"), record("vocab", decompressedSize=2**40)], "1 entries of the registry are of unknown form"),
    ],
)
def test_a_pair_that_cannot_be_had_is_refused_with_the_reason(records: list[Any], reason: str) -> None:
    with pytest.raises(HubError) as refused:
        parsed(records).newest("firefox:zh-en")
    assert reason in str(refused.value)


@pytest.mark.parametrize("name", ["firefox:", "firefox:zh", "firefox:../x", "firefox:zh-en-de", "firefox:zh_en"])
def test_a_name_without_a_pair_is_refused(name: str) -> None:
    assert is_student_name(name)
    with pytest.raises(HubError, match="names no pair of languages, as firefox:zh-en does"):
        parsed(files()).newest(name)


@pytest.mark.parametrize("spelling", ["zh-en", "zh-Hans-en", "ZH-EN", "zh-hans-EN"])
def test_a_pair_has_one_name_of_a_bundle_however_it_is_spelt(spelling: str) -> None:
    assert bundle_name(f"firefox:{spelling}") == "firefox-zh-en"
    assert parsed(files()).newest(f"firefox:{spelling}").name == "firefox:zh-en"


def test_another_script_is_another_bundle() -> None:
    assert bundle_name("firefox:en-zh-Hant") == "firefox-en-zh-hant"


def test_a_disk_that_is_short_by_megabytes_is_refused_with_two_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=120_900_000))
    with pytest.raises(HubError, match=r"needs 121 MB, and 120 MB are free$"):
        require_room(tmp_path, 121_000_000, 0)


@pytest.mark.parametrize(
    "location",
    ["/etc/passwd", "../up", "a/../../b", "a//b", "https://other.example/a", "a?b", "a#b", "a\nb", "a/.hid", ""],
)
def test_a_place_that_leads_elsewhere_is_never_used(location: str) -> None:
    attachment = {"hash": DIGEST, "size": 50, "location": location}
    registry = parsed([record("model", attachment=attachment), record("vocab")])
    assert registry.unread == 1
    with pytest.raises(HubError, match="lists only a part of the files"):
        registry.newest("firefox:zh-en")
    places = {"model": {"path": location}, "vocab": {"path": "models/vocab.gz"}}
    assert of_entries([entry(files=places)]).unread == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"fileType": "../../x"},
        {"sourceLanguage": "../zh"},
        {"version": "3.0/../.."},
        {"architecture": "\x1b[2J"},
        {"decompressedHash": "not a digest"},
        {"decompressedSize": -1},
        {"attachment": None},
    ],
)
def test_an_entry_of_unknown_form_is_counted_and_left_out(fields: dict[str, Any]) -> None:
    registry = parsed([record("model", **fields), None, 1, *files(sourceLanguage="de")])
    assert registry.unread == 3
    assert registry.newest("firefox:de-en").architecture == "base"


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"{}", b'{"data": 1}', b'{"models": []}', b"[" * 100_000])
def test_an_answer_that_is_no_registry_is_refused(content: bytes) -> None:
    with pytest.raises(HubError, match="http://mirror answers with no list of Firefox Translations' models"):
        parse_registry(content, "http://mirror")


FIELDS = [*record(), *entry(), "data", "models", "baseUrl", "path"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=30,
)


@given(value=JSON, records=st.lists(JSON, max_size=4))
def test_no_answer_makes_a_registry_fail_in_another_way(value: Any, records: list[Any]) -> None:
    for content in (value, {"data": [record() | each if isinstance(each, dict) else each for each in records]}):
        with contextlib.suppress(HubError):
            parse_registry(json.dumps(content).encode(), "http://mirror").newest("firefox:zh-en")


def test_models_of_a_pair_are_listed_with_firefoxs_first(capsys: pytest.CaptureFixture[str]) -> None:
    for pair, size in (("zh-en", "0.059"), ("de-en", "0.031")):
        assert available_command(["models", "available", pair]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:3] == [f"firefox:{pair}", pair, size]
    assert available_command(["models", "available", "de-fr"]) == 0
    assert "firefox" not in capsys.readouterr().out
