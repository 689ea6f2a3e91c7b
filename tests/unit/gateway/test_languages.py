from __future__ import annotations

import dataclasses
from typing import Any

from xuanzang.client import DecodingDefaults, Model
from xuanzang.gateway.languages import name_of, pivoted_targets, source_for, sources_into, targets_by_source


def model(sources: tuple[str, ...], targets: tuple[str, ...]) -> Model:
    unset: Any = dict.fromkeys(DecodingDefaults.__dataclass_fields__)
    return Model(
        name="m",
        version="1",
        source_languages=sources,
        target_languages=targets,
        precision="int8",
        manifest_sha256="",
        is_default=True,
        defaults=DecodingDefaults(**unset),
        max_source_length=1,
        max_target_length=1,
    )


MODELS = [model(("zh",), ("en",)), model(("de", "zh"), ("de", "fr")), model(("zh-Hant",), ("en",))]


def test_pairs_of_all_models_are_joined_and_no_language_is_its_own_target() -> None:
    assert targets_by_source(MODELS) == {"de": ["fr"], "zh": ["de", "en", "fr"], "zh-Hant": ["en"]}


def test_pairs_of_two_models_are_told_from_those_of_one() -> None:
    through = dataclasses.replace(
        model(("en",), ("de", "en-GB", "zh")), pivoted_source_languages=("fr", "zh"), pivot_language="en"
    )
    models = [*MODELS, through]
    assert targets_by_source(models)["fr"] == ["de", "zh"]
    assert pivoted_targets(models) == {"fr": ["de", "zh"]}
    assert pivoted_targets(MODELS) == {}


def test_sources_are_found_for_a_target_and_its_regions() -> None:
    found = {target: sources_into(target, MODELS) for target in ("en", "EN-GB", "fr", "ja", "e")}
    chinese = ["zh", "zh-Hant"]
    assert found == {"en": chinese, "EN-GB": chinese, "fr": ["de", "zh"], "ja": [], "e": []}


def test_a_detected_language_is_taken_for_a_served_one() -> None:
    for detected, source in (("zh-Hant", "zh"), ("zh-Hans", "zh"), ("zh", "zh"), ("de", None), ("en", None)):
        assert source_for(detected, ["zh", "ja"]) == source
    assert source_for("zh", ["zh-Hant"]) == "zh-Hant"


def test_a_language_has_a_name() -> None:
    names = {"zh": "Chinese", "EN-GB": "English (British)", "zh-Hans-CN": "Chinese", "xx": "xx", "or": "Odia"}
    assert {code: name_of(code) for code in names} == names
