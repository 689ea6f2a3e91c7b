from __future__ import annotations

import pytest

from xuanzang.server.engine.errors import InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.routing import resolve
from xuanzang.server.engine.values import DecodingOptions, ServedModel

OPTIONS = DecodingOptions(beam_size=4, num_hypotheses=1, length_penalty=1, min_target_length=0, max_target_length=None)


def served(name: str, source: str, target: str, version: int = 1, *, is_default: bool = True) -> ServedModel:
    return ServedModel(
        name=name,
        version=version,
        source_languages=tuple(source.split()),
        target_languages=tuple(target.split()),
        precision="int8",
        manifest_sha256="0" * 64,
        is_default=is_default,
        default_options=OPTIONS,
        max_source_length=256,
        max_target_length=256,
    )


ZH_EN = served("zh-en", "zh", "en", version=2)
ZH_EN_1 = served("zh-en", "zh", "en", version=1, is_default=False)
HANT_EN = served("hant-en", "zh-Hant", "en")
EN_ZH = served("en-zh", "en", "zh")
MODELS = (ZH_EN_1, ZH_EN, HANT_EN, EN_ZH)


def find(model: str = "", source: str = "", target: str = "", models: tuple[ServedModel, ...] = MODELS) -> ServedModel:
    return resolve(models, model=model, source_language=source, target_language=target)


@pytest.mark.parametrize(
    ("source", "target", "model"),
    [
        ("zh", "en", ZH_EN),
        ("ZH", "EN", ZH_EN),
        ("zh-CN", "en-GB", ZH_EN),
        ("zh-Hans-CN", "en", ZH_EN),
        ("zh-hant", "en", HANT_EN),
        ("zh-Hant-TW", "en-US", HANT_EN),
        ("en", "zh-Hant", EN_ZH),
    ],
)
def test_languages_find_the_model_that_fits_best(source: str, target: str, model: ServedModel) -> None:
    assert find(source=source, target=target) == model


def test_a_name_finds_the_default_version_and_a_version_that_one() -> None:
    assert find("zh-en") == ZH_EN
    assert find("zh-en/1") == ZH_EN_1
    assert find("zh-en/1", source="zh-CN", target="en") == ZH_EN_1


@pytest.mark.parametrize("name", ["zh", "zh-en/3", "zh-en/", "zh-en/01", "ZH-EN", "/1"])
def test_a_name_that_is_not_served_is_not_found_and_those_that_are_get_listed(name: str) -> None:
    with pytest.raises(ModelNotFoundError, match="served models: en-zh, hant-en, zh-en"):
        find(name)


@pytest.mark.parametrize(("source", "target"), [("zh", "fr"), ("fr", "en"), ("z", "en"), ("zhx", "en"), ("zh", "zh")])
def test_languages_that_no_model_translates_are_not_found_and_those_that_are_get_listed(
    source: str, target: str
) -> None:
    with pytest.raises(ModelNotFoundError, match="served pairs: en to zh, zh to en, zh-Hant to en"):
        find(source=source, target=target)


def test_a_named_model_must_translate_the_languages() -> None:
    with pytest.raises(ModelNotFoundError, match="no model translates en to any; served pairs: zh to en"):
        find("zh-en", source="en")


def test_the_only_model_needs_neither_name_nor_languages() -> None:
    assert find(models=(ZH_EN,)) == ZH_EN
    assert find(models=(ZH_EN_1, ZH_EN), target="en") == ZH_EN


def test_of_several_models_all_missing_languages_are_asked_for() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        find()
    assert [violation.field for violation in refusal.value.violations] == [
        "source_language_code",
        "target_language_code",
    ]


def test_models_that_fit_equally_well_are_named_and_the_choice_is_the_callers() -> None:
    with pytest.raises(InvalidInputError, match=r"model: must be set: several models.*: other, zh-en") as refusal:
        find(source="zh", target="en", models=(*MODELS, served("other", "zh", "en")))
    assert [violation.field for violation in refusal.value.violations] == ["model"]


def test_without_models_nothing_is_found() -> None:
    with pytest.raises(ModelNotFoundError, match="served models: none"):
        find(source="zh", target="en", models=())
