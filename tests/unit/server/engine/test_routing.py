from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from search_options import search_options

from xuanzang.server.engine.errors import InvalidInputError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.routing import language_choice, language_of, require_served, resolve, with_pivots
from xuanzang.server.engine.types import ServedModel
from xuanzang.text.language_detection import LanguageChoice
from xuanzang.text.types import Reading, TextKind

OPTIONS = search_options().decoding


def served(name: str, source: str, target: str, version: int = 1, **changes: Any) -> ServedModel:
    fields: dict[str, Any] = {
        "is_default": True,
        "precision": "int8",
        "manifest_sha256": "0" * 64,
        "default_options": OPTIONS,
    }
    lengths: dict[str, Any] = {"max_source_length": 256, "max_target_length": 256}
    languages: dict[str, Any] = {"source_languages": tuple(source.split()), "target_languages": tuple(target.split())}
    return ServedModel(name=name, version=version, **fields | lengths | languages | changes)


ZH_EN = served("zh-en", "zh", "en", version=2)
ZH_EN_1 = served("zh-en", "zh", "en", version=1, is_default=False)
HANT_EN = served("hant-en", "zh-Hant", "en")
EN_ZH = served("en-zh", "en", "zh")
MANY = served("en-mul", "en", "fr zh-Hans zh-Hant de", needs_target_language=True)
OTHER = served("other", "zh", "en")
NLLB = served("nllb", "en zh", "en zh", needs_target_language=True, needs_source_language=True)
DE_FR = served("de-fr", "de", "fr")
MODELS = (ZH_EN_1, ZH_EN, HANT_EN, EN_ZH)


def find(model: str = "", source: str = "", target: str = "", models: tuple[ServedModel, ...] = MODELS) -> ServedModel:
    return resolve(models, model=model, source_language=source, target_language=target).model


@pytest.mark.parametrize(
    ("request_", "models", "found"),
    [
        (("", "zh", "en"), MODELS, ZH_EN),
        (("", "ZH", "EN"), MODELS, ZH_EN),
        (("", "zh-CN", "en-GB"), MODELS, ZH_EN),
        (("", "zh-Hans-CN", "en"), MODELS, ZH_EN),
        (("", "zh-hant", "en"), MODELS, HANT_EN),
        (("", "zh-Hant-TW", "en-US"), MODELS, HANT_EN),
        (("", "en", "zh-Hans-CN"), MODELS, EN_ZH),
        # A name finds the default version, and a version that one.
        (("zh-en", "", ""), MODELS, ZH_EN),
        (("zh-en/1", "", ""), MODELS, ZH_EN_1),
        (("zh-en/1", "zh-CN", "en"), MODELS, ZH_EN_1),
        # The only model needs neither name nor languages.
        (("", "", ""), (ZH_EN,), ZH_EN),
        (("", "", "en"), (ZH_EN_1, ZH_EN), ZH_EN),
        # One language is enough if only one model has it.
        (("", "", "zh"), MODELS, EN_ZH),
        (("", "en-GB", ""), MODELS, EN_ZH),
        (("", "", "en-US"), (ZH_EN, EN_ZH), ZH_EN),
        (("", "zh-TW", ""), (ZH_EN, EN_ZH), ZH_EN),
        # Among models of one and of many target languages; "zh" of one is nearer to it than "zh-Hans" of the other.
        (("", "en", "fr"), (MANY, ZH_EN, EN_ZH, DE_FR), MANY),
        (("", "de", "fr"), (MANY, ZH_EN, EN_ZH, DE_FR), DE_FR),
        (("", "en", "zh"), (MANY, ZH_EN, EN_ZH, DE_FR), EN_ZH),
        (("", "en", "zh-Hans"), (MANY, ZH_EN, EN_ZH, DE_FR), MANY),
    ],
)
def test_the_best_model_is_found(
    request_: tuple[str, str, str], models: tuple[ServedModel, ...], found: ServedModel
) -> None:
    assert find(*request_, models=models) == found


SERVED = "served models: en-zh, hant-en, zh-en"
PAIRS = "served pairs: en to zh, zh to en, zh-Hant to en"


@pytest.mark.parametrize(
    ("request_", "models", "message"),
    [
        *(((name, "", ""), MODELS, SERVED) for name in ("zh", "zh-en/3", "zh-en/", "zh-en/01", "ZH-EN", "/1")),
        *(
            (("", *pair), MODELS, PAIRS)
            for pair in (("zh", "fr"), ("fr", "en"), ("z", "en"), ("zhx", "en"), ("zh", "zh"))
        ),
        (("", "zho_Hans", "eng_Latn"), (NLLB,), "zho_Hans to eng_Latn; served pairs: 2 languages to en, zh by nllb"),
        (("zh-en", "en", ""), MODELS, "no model translates en to any; served pairs: zh to en"),
        (("", "zh", "en"), (), "served models: none"),
        # Simplified Chinese is no answer to traditional.
        *(
            (("", "en", f"zh-{each}"), MODELS, f"translates en to zh-{each}; ")
            for each in ("Hant", "TW", "HK", "Hant-TW")
        ),
        # What is no code is answered with the one that is meant.
        *(
            (("", each, "en"), (ZH_EN,), f"; '{each}': did you mean 'zh'?")
            for each in ("zh_CN", "cn", "zho", "chinese", "Chinese", "ZH_hans")
        ),
    ],
)
def test_what_is_not_served_is_refused_with_what_is(
    request_: tuple[str, str, str], models: tuple[ServedModel, ...], message: str
) -> None:
    with pytest.raises(ModelNotFoundError) as refusal:
        find(*request_, models=models)
    assert message in str(refusal.value)


def refused_fields(models: tuple[ServedModel, ...] = MODELS, **request: str) -> list[str]:
    with pytest.raises(InvalidInputError) as refusal:
        find(models=models, **request)
    return [violation.field for violation in refusal.value.violations]


def test_only_languages_that_decide_among_several_models_are_asked_for_with_the_pairs() -> None:
    assert refused_fields() == ["source_language_code", "target_language_code"]
    assert refused_fields(target="en") == ["source_language_code"]
    assert refused_fields(models=(EN_ZH, MANY), source="en") == ["target_language_code"]
    # No language would tell these two apart.
    assert refused_fields(models=(ZH_EN, OTHER)) == ["model"]
    with pytest.raises(InvalidInputError, match=r"or model must be; served pairs: en to zh, zh to en$"):
        find(models=(ZH_EN, EN_ZH))


def test_models_that_fit_equally_well_are_named_and_the_choice_is_the_callers() -> None:
    assert refused_fields((*MODELS, OTHER), source="zh", target="en") == ["model"]
    with pytest.raises(InvalidInputError, match=r"model: must be set: several models.*: other, zh-en"):
        find(source="zh", target="en", models=(*MODELS, OTHER))


@pytest.mark.parametrize(
    ("wanted", "language"),
    [("fr", "fr"), ("FR-ca", "fr"), ("zh-hans-CN", "zh-Hans"), ("ZH-HANT", "zh-Hant"), ("de-1996", "de")],
)
def test_the_target_language_is_the_models_that_fits_best(wanted: str, language: str) -> None:
    for models in ((MANY,), (MANY, ZH_EN)):
        route = resolve(models, model="", source_language="en", target_language=wanted)
        assert (route.model, route.target_language) == (MANY, language)


def test_a_model_that_must_know_what_to_write_asks_for_the_target_language() -> None:
    with pytest.raises(InvalidInputError, match="must be set: en-mul translates into de, fr, zh-Hans, zh-Hant"):
        find("en-mul", models=(MANY, ZH_EN))
    assert refused_fields((MANY, ZH_EN), model="en-mul") == ["target_language_code"]


def test_a_model_that_need_not_know_writes_its_first_target_language() -> None:
    model = served("zh-en", "zh", "en en-GB")
    assert resolve((model,), model="", source_language="", target_language="").target_language == "en"
    assert resolve((model,), model="", source_language="", target_language="en-gb").target_language == "en-GB"


@pytest.mark.parametrize(
    ("model", "target", "sources", "into"),
    [
        ("", "", ("en", "zh", "zh-Hant"), ""),
        ("", "en-GB", ("zh", "zh-Hant"), "en"),
        ("", "zh", ("en",), "zh"),
        ("zh-en", "", ("zh",), "en"),
        ("", "fr", (), ""),
    ],
)
def test_a_text_may_be_in_any_language_that_fits(model: str, target: str, sources: tuple[str, ...], into: str) -> None:
    choice = language_choice(MODELS, model=model, target_language=target)
    assert (choice.sources, choice.target) == (sources, into)


def reading(language: str = "", *, kind: TextKind = TextKind.SERVED, has_letters: bool = True) -> Reading:
    return Reading(kind=kind, language=language, has_letters=has_letters)


BOTH = LanguageChoice(sources=("en", "zh"))
UNCERTAIN = TextKind.UNCERTAIN


ONLY = LanguageChoice(sources=("zh",), target="en")


@pytest.mark.parametrize(
    ("readings", "choice", "language"),
    [
        ([reading("zh"), reading("zh"), reading("en", kind=UNCERTAIN)], BOTH, "zh"),
        ([reading("en", kind=UNCERTAIN)], BOTH, "en"),
        ([reading(kind=UNCERTAIN, has_letters=False)], BOTH, "en"),
        ([reading(kind=UNCERTAIN, has_letters=False), reading("zh")], BOTH, "zh"),
        # The only one need not be named.
        ([reading(kind=UNCERTAIN)], ONLY, ""),
    ],
)
def test_the_language_told_is_that_of_all_texts(readings: list[Reading], choice: LanguageChoice, language: str) -> None:
    assert language_of(readings, choice) == language


def test_texts_that_tell_no_language_or_several_need_one() -> None:
    with pytest.raises(InvalidInputError, match=r"source_language_code: must be set, one of en, zh: .* for sure"):
        language_of([reading(kind=UNCERTAIN)], BOTH)
    with pytest.raises(InvalidInputError, match="several languages, en, zh"):
        language_of([reading("zh"), reading("en")], BOTH)


def test_each_text_in_an_unserved_language_is_named() -> None:
    french, unknown = reading("fr", kind=TextKind.UNSERVED), reading(kind=TextKind.UNSERVED)
    with pytest.raises(UnservedLanguageError) as caught:
        require_served([reading("zh"), french, unknown, french], ONLY)
    assert [each.field for each in caught.value.violations] == ["contents[1]", "contents[2]", "contents[3]"]
    first, second, _ = (each.description for each in caught.value.violations)
    assert first.startswith("is in fr; what is translated into en: zh.")
    assert second.startswith("is in another language;")
    assert (caught.value.detected, caught.value.served) == (("fr",), ("zh",))
    require_served([reading("zh")], ONLY)


EN_DE = served("en-de", "en", "de")
FR_DE = served("fr-de", "fr", "de")
ZH_FR = served("zh-fr", "zh", "fr")
CHAINED = (ZH_EN_1, ZH_EN, EN_DE, FR_DE, ZH_FR, EN_ZH)


def chain(source: str, target: str, *pivots: str, models: tuple[ServedModel, ...] = CHAINED) -> list[ServedModel]:
    route = resolve(models, model="", source_language=source, target_language=target, pivots=pivots)
    return [each.model for each in (route.first, route) if each]


def test_a_pair_without_a_model_goes_through_the_first_language_that_works() -> None:
    assert chain("zh", "de", "en", "fr") == [ZH_EN, EN_DE]
    assert chain("zh", "de", "fr", "en") == [ZH_FR, FR_DE]
    assert chain("zh", "de", "es", "fr") == [ZH_FR, FR_DE]
    assert chain("zh-CN", "de-AT", "en") == [ZH_EN, EN_DE]
    assert chain("zh", "en", "fr") == [ZH_EN]
    two = resolve(CHAINED, model="", source_language="zh-CN", target_language="de", pivots=("en",))
    assert two.first is not None
    assert [two.first.source_language, two.first.target_language, two.source_language, two.target_language] == [
        *("zh", "en"),
        *("en", "de"),
    ]


def test_versions_of_a_chain_are_those_of_direct_requests() -> None:
    pinned = tuple(dataclasses.replace(each, is_default=not each.is_default) for each in (ZH_EN_1, ZH_EN))
    assert chain("zh", "de", "en", models=(*pinned, EN_DE)) == [pinned[0], EN_DE]
    with pytest.raises(InvalidInputError, match="several models translate these languages: en-de, other"):
        chain("zh", "de", "en", models=(ZH_EN, EN_DE, served("other", "en", "de")))


@pytest.mark.parametrize(
    ("source", "target", "pivots"),
    [("zh", "de", ()), ("zh", "zh-Hant", ("en",)), ("de", "zh", ("en",)), ("", "es", ("en",))],
)
def test_nothing_goes_through_a_language_without_two_models(source: str, target: str, pivots: tuple[str, ...]) -> None:
    with pytest.raises(ModelNotFoundError, match="no model translates"):
        chain(source, target, *pivots)


def test_languages_before_a_pivot_are_sources_of_texts_without_one() -> None:
    models = ZH_EN, EN_DE, EN_ZH
    assert language_choice(models, model="", target_language="de", pivots=("en",)).sources == ("en", "zh")
    assert language_choice(models, model="", target_language="de").sources == ("en",)
    assert language_choice(models, model="", target_language="zh", pivots=("en",)).sources == ("en",)
    assert language_choice(models, model="en-de", target_language="de", pivots=("en",)).sources == ("en",)


def test_models_are_listed_with_the_pairs_that_they_end() -> None:
    listed = {each.name: each for each in with_pivots(CHAINED, ("en",))}
    assert {name: each.pivoted_source_languages for name, each in listed.items() if each.pivot_language} == {
        "en-de": ("zh",)
    }
    spanish = served("es-en", "es", "en")
    listed = {each.name: each for each in with_pivots((*CHAINED, spanish), ("en", "fr"))}
    assert listed["en-de"].pivoted_source_languages == ("es", "zh")
    assert listed["en-zh"].pivoted_source_languages == ("es",)
    assert not listed["fr-de"].pivot_language
    for each in with_pivots((*CHAINED, spanish), ("fr", "en")):
        for source in each.pivoted_source_languages:
            *_, last = chain(source, each.target_languages[0], "fr", "en", models=(*CHAINED, spanish))
            assert (last.name, last.version) == (each.name, each.version)
