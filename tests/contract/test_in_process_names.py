"""Who moves from the SDK to translation in one process, or back, finds the same names."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from pathlib import Path

import pytest

from xuanzang import client, server
from xuanzang.server.engine.settings import EngineSettings

VALUES = (
    "DecodingDefaults",
    "DetectedLanguage",
    "EffectiveOptions",
    "GlossaryMatch",
    "Hypothesis",
    "Model",
    "ProgressiveTranslation",
    "Provenance",
    "Quality",
    "SamplingOptions",
    "SentenceProvenance",
    "StreamedTranslation",
    "TokenDetail",
    "Translation",
)
LACKING = {
    # Of the wire: a request and its answer, for a server.
    "Translation": {"exchange"}
}
FURTHER = {
    # Where the best hypothesis of the sentence has it.
    "GlossaryMatch": {"target_start"}
}


def fields(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_the_options_are_those_of_the_sdk() -> None:
    assert server.TranslateOptions is client.TranslateOptions


@pytest.mark.parametrize("name", VALUES)
def test_a_value_has_the_fields_of_the_sdk(name: str) -> None:
    ours, theirs = getattr(server, name), getattr(client, name)
    assert fields(ours) - FURTHER.get(name, set()) == fields(theirs) - LACKING.get(name, set())
    assert ours.__dataclass_params__.frozen


@pytest.mark.parametrize("name", ["FinishReason", "GlossaryOutcome", "ProtectedPattern", "QualityFlag"])
def test_an_enumeration_has_the_members_of_the_sdk(name: str) -> None:
    ours, theirs = getattr(server, name), getattr(client, name)
    # Here nothing is unknown to this version.
    assert {member.name for member in ours} == {member.name for member in theirs} - {"UNSPECIFIED"}


METHODS = (
    "translate",
    "translate_one",
    "translate_stream",
    "translate_progressively",
    "detect_languages",
    "list_models",
    "close",
)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_what_that_of_the_sdk_takes(name: str) -> None:
    # Where nothing crosses a network, these cannot hang.
    untimed = ("translate_stream", "detect_languages", "list_models")
    lacking = {"timeout"} if name in untimed else set()
    sdk = set(inspect.signature(getattr(client.TranslationClient, name)).parameters)
    for translator in (server.Translator, server.AsyncTranslator):
        assert set(inspect.signature(getattr(translator, name)).parameters) == sdk - lacking


def test_the_settings_of_a_translator_are_settings_of_the_server() -> None:
    hints = typing.get_type_hints(server.TranslatorSettings)
    assert hints.keys() <= EngineSettings.model_fields.keys()


def test_the_page_has_every_method_setting_and_error() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    errors = {name for name in server.__all__ if name.endswith("Error")} - {"EngineError", "OverloadedError"}
    for name in {*METHODS[:-1], *server.TranslatorSettings.__annotations__, *errors}:
        assert f"`{name}" in page, name
