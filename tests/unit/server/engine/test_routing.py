from __future__ import annotations

import dataclasses

import pytest

from xuanzang.server.engine.errors import InvalidInputError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.routing import language_choice, language_of, require_served, resolve, with_pivots
from xuanzang.server.engine.types import DecodingOptions, ServedModel
from xuanzang.text.language_detection import LanguageChoice
from xuanzang.text.types import Reading, TextKind

OPTIONS = DecodingOptions(beam_size=4, num_hypotheses=1, length_penalty=1, min_target_length=0, max_target_length=None)


def served(
    name: str, source: str, target: str, version: int = 1, *, is_default: bool = True, needs_target: bool = False
) -> ServedModel:
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
        needs_target_language=needs_target,
    )


ZH_EN = served("zh-en", "zh", "en", version=2)
ZH_EN_1 = served("zh-en", "zh", "en", version=1, is_default=False)
HANT_EN = served("hant-en", "zh-Hant", "en")
EN_ZH = served("en-zh", "en", "zh")
MANY = served("en-mul", "en", "fr zh-Hans zh-Hant de", needs_target=True)
MODELS = (ZH_EN_1, ZH_EN, HANT_EN, EN_ZH)


def find(model: str = "", source: str = "", target: str = "", models: tuple[ServedModel, ...] = MODELS) -> ServedModel:
    return resolve(models, model=model, source_language=source, target_language=target).model


@pytest.mark.parametrize(
    ("source", "target", "model"),
    [
        ("zh", "en", ZH_EN),
        ("ZH", "EN", ZH_EN),
        ("zh-CN", "en-GB", ZH_EN),
        ("zh-Hans-CN", "en", ZH_EN),
        ("zh-hant", "en", HANT_EN),
        ("zh-Hant-TW", "en-US", HANT_EN),
        ("en", "zh-Hans-CN", EN_ZH),
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
def test_the_error_for_untranslated_languages_lists_the_served_pairs(source: str, target: str) -> None:
    with pytest.raises(ModelNotFoundError, match="served pairs: en to zh, zh to en, zh-Hant to en"):
        find(source=source, target=target)


def test_the_error_of_a_model_of_many_languages_shows_how_their_codes_are_written() -> None:
    many = dataclasses.replace(served("nllb", "en zh", "en zh", needs_target=True), needs_source_language=True)
    with pytest.raises(ModelNotFoundError, match="zho_Hans to eng_Latn; served pairs: 2 languages to en, zh by nllb"):
        find(source="zho_Hans", target="eng_Latn", models=(many,))


def test_a_named_model_must_translate_the_languages() -> None:
    with pytest.raises(ModelNotFoundError, match="no model translates en to any; served pairs: zh to en"):
        find("zh-en", source="en")


def test_the_only_model_needs_neither_name_nor_languages() -> None:
    assert find(models=(ZH_EN,)) == ZH_EN
    assert find(models=(ZH_EN_1, ZH_EN), target="en") == ZH_EN


def refused_fields(models: tuple[ServedModel, ...] = MODELS, **request: str) -> list[str]:
    with pytest.raises(InvalidInputError) as refusal:
        find(models=models, **request)
    return [violation.field for violation in refusal.value.violations]


def test_only_languages_that_decide_among_several_models_are_asked_for_with_the_pairs() -> None:
    assert refused_fields() == ["source_language_code", "target_language_code"]
    assert refused_fields(target="en") == ["source_language_code"]
    assert refused_fields(models=(EN_ZH, MANY), source="en") == ["target_language_code"]
    # No language would tell these two apart.
    assert refused_fields(models=(ZH_EN, served("other", "zh", "en"))) == ["model"]
    with pytest.raises(InvalidInputError, match=r"or model must be; served pairs: en to zh, zh to en$"):
        find(models=(ZH_EN, EN_ZH))


def test_one_language_is_enough_if_only_one_model_has_it() -> None:
    assert find(target="zh") == find(source="en-GB") == EN_ZH
    assert find(models=(ZH_EN, EN_ZH), target="en-US") == find(models=(ZH_EN, EN_ZH), source="zh-TW") == ZH_EN


def test_models_that_fit_equally_well_are_named_and_the_choice_is_the_callers() -> None:
    with pytest.raises(InvalidInputError, match=r"model: must be set: several models.*: other, zh-en") as refusal:
        find(source="zh", target="en", models=(*MODELS, served("other", "zh", "en")))
    assert [violation.field for violation in refusal.value.violations] == ["model"]


def test_without_models_nothing_is_found() -> None:
    with pytest.raises(ModelNotFoundError, match="served models: none"):
        find(source="zh", target="en", models=())


@pytest.mark.parametrize(
    ("wanted", "language"),
    [("fr", "fr"), ("FR-ca", "fr"), ("zh-hans-CN", "zh-Hans"), ("ZH-HANT", "zh-Hant"), ("de-1996", "de")],
)
def test_the_target_language_is_the_models_that_fits_best(wanted: str, language: str) -> None:
    for models in ((MANY,), (MANY, ZH_EN)):
        route = resolve(models, model="", source_language="en", target_language=wanted)
        assert (route.model, route.target_language) == (MANY, language)


def test_a_model_that_must_know_what_to_write_asks_for_the_target_language() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        resolve((MANY, ZH_EN), model="en-mul", source_language="", target_language="")
    [violation] = refusal.value.violations
    assert violation.field == "target_language_code"
    assert violation.description == "must be set: en-mul translates into de, fr, zh-Hans, zh-Hant"


def test_a_model_that_need_not_know_writes_its_first_target_language() -> None:
    model = served("zh-en", "zh", "en en-GB")
    assert resolve((model,), model="", source_language="", target_language="").target_language == "en"
    assert resolve((model,), model="", source_language="", target_language="en-gb").target_language == "en-GB"


def test_a_pair_finds_its_model_among_those_of_one_and_of_many_target_languages() -> None:
    models = (MANY, ZH_EN, EN_ZH, served("de-fr", "de", "fr"))
    assert find(source="en", target="fr", models=models) == MANY
    assert find(source="de", target="fr", models=models).name == "de-fr"
    # "zh" of one is nearer than "zh-Hans" of the other to what was asked for, and the other way round.
    assert find(source="en", target="zh", models=models) == EN_ZH
    assert find(source="en", target="zh-Hans", models=models) == MANY


@pytest.mark.parametrize("target", ["zh-Hant", "zh-TW", "zh-HK", "zh-Hant-TW"])
def test_simplified_chinese_is_no_answer_to_traditional(target: str) -> None:
    with pytest.raises(ModelNotFoundError, match=f"no model translates en to {target}; served pairs: en to zh"):
        find(source="en", target=target)


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
def test_a_text_may_be_in_any_language_of_the_models_that_fit(
    model: str, target: str, sources: tuple[str, ...], into: str
) -> None:
    choice = language_choice(MODELS, model=model, target_language=target)
    assert (choice.sources, choice.target) == (sources, into)


def reading(language: str = "", *, kind: TextKind = TextKind.SERVED, has_letters: bool = True) -> Reading:
    return Reading(kind=kind, language=language, has_letters=has_letters)


BOTH = LanguageChoice(sources=("en", "zh"))
UNCERTAIN = TextKind.UNCERTAIN


@pytest.mark.parametrize(
    ("readings", "language"),
    [
        ([reading("zh"), reading("zh"), reading("en", kind=UNCERTAIN)], "zh"),
        ([reading("en", kind=UNCERTAIN)], "en"),
        ([reading(kind=UNCERTAIN, has_letters=False)], "en"),
        ([reading(kind=UNCERTAIN, has_letters=False), reading("zh")], "zh"),
    ],
)
def test_the_language_that_is_told_is_that_of_all_texts(readings: list[Reading], language: str) -> None:
    assert language_of(readings, BOTH) == language


def test_the_only_language_need_not_be_named() -> None:
    assert language_of([reading(kind=UNCERTAIN)], LanguageChoice(sources=("zh",), target="en")) == ""


def test_texts_that_tell_no_language_or_several_need_one() -> None:
    with pytest.raises(InvalidInputError, match=r"source_language_code: must be set, one of en, zh: .* for sure"):
        language_of([reading(kind=UNCERTAIN)], BOTH)
    with pytest.raises(InvalidInputError, match="several languages, en, zh"):
        language_of([reading("zh"), reading("en")], BOTH)


def test_each_text_in_an_unserved_language_is_named() -> None:
    french, unknown = reading("fr", kind=TextKind.UNSERVED), reading(kind=TextKind.UNSERVED)
    choice = LanguageChoice(sources=("zh",), target="en")
    with pytest.raises(UnservedLanguageError) as caught:
        require_served([reading("zh"), french, unknown, french], choice)
    assert [each.field for each in caught.value.violations] == ["contents[1]", "contents[2]", "contents[3]"]
    first, second, _ = (each.description for each in caught.value.violations)
    assert first.startswith("is in fr; what is translated into en: zh.")
    assert second.startswith("is in another language;")
    assert (caught.value.detected, caught.value.served) == (("fr",), ("zh",))
    require_served([reading("zh")], choice)


@pytest.mark.parametrize("wanted", ["zh_CN", "cn", "zho", "chinese", "Chinese", "ZH_hans"])
def test_what_is_no_code_is_answered_with_the_one_that_is_meant(wanted: str) -> None:
    with pytest.raises(ModelNotFoundError, match=f"; '{wanted}': did you mean 'zh'?"):
        find(source=wanted, target="en", models=(ZH_EN,))


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
