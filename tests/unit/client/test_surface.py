from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
import types
from typing import Any

import pytest
from tests.unit.client.conftest import Script, finished

import xuanzang.client as sdk
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb


def public_methods(cls: Any) -> Any:
    return {name: method for name, method in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_all_is_exactly_the_public_surface() -> None:
    public = {
        name
        for name, value in vars(sdk).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(sdk.__all__) == public - {"annotations"}
    assert len(sdk.__all__) == len(set(sdk.__all__))


def test_both_clients_have_the_same_methods_parameters_and_descriptions() -> None:
    blocking, asynchronous = public_methods(sdk.TranslationClient), public_methods(sdk.AsyncTranslationClient)
    assert list(blocking) == list(asynchronous)
    for name, method in blocking.items():
        assert method.__doc__
        assert asynchronous[name].__doc__ == method.__doc__
        ours, theirs = (inspect.signature(methods[name]).parameters for methods in (blocking, asynchronous))
        assert [(each.name, each.kind, each.default) for each in ours.values()] == [
            (each.name, each.kind, each.default) for each in theirs.values()
        ]
    assert inspect.signature(sdk.TranslationClient) == inspect.signature(sdk.AsyncTranslationClient)


def test_frameworks_see_which_methods_of_the_asyncio_client_are_awaited() -> None:
    awaited = {name for name in dir(sdk.TranslationClient) if not name.startswith("_")}
    awaited -= {"for_caller", "translate_progressively", "translate_stream"}
    methods = public_methods(sdk.AsyncTranslationClient)
    assert {name for name, method in methods.items() if inspect.iscoroutinefunction(method)} == awaited


@pytest.mark.parametrize("client", [sdk.TranslationClient, sdk.AsyncTranslationClient])
def test_help_lists_the_options_with_their_meanings(client: Any) -> None:
    for name, options in [("translate", sdk.TranslateOptions), ("explain", sdk.ExplainOptions)]:
        shown = pydoc.plain(pydoc.render_doc(getattr(client, name)))
        assert all(re.search(rf"^ +{option} \(.+\): \w", shown, re.MULTILINE) for option in options.__optional_keys__)
        assert "beam_size (int | None): " in shown


def test_every_option_of_the_wire_is_a_keyword_argument() -> None:
    otherwise_named = {
        "source_language_code": "source_language",
        "target_language_code": "target_language",
        "glossary_entries": "glossary",
        "glossary": "glossary_name",
    }
    settings = {field.name for field in pb.TranslationSettings.DESCRIPTOR.fields} - {"options"}
    options = {field.name for field in pb.DecodingOptions.DESCRIPTOR.fields}
    assert {otherwise_named.get(name, name) for name in settings | options} == sdk.TranslateOptions.__optional_keys__
    sampling = {field.name for field in pb.SamplingOptions.DESCRIPTOR.fields}
    assert sampling == {field.name for field in dataclasses.fields(sdk.SamplingOptions)}


def test_explain_takes_the_options_of_a_whole_beam_search() -> None:
    without = {"sampling", "partial_on_deadline", "refuse_long_sentences"}
    on_the_wire = {field.name for field in pb.DecodingOptions.DESCRIPTOR.fields} - without
    assert on_the_wire | {"source_language", "target_language", "model"} == sdk.ExplainOptions.__optional_keys__


@pytest.mark.parametrize(
    ("ours", "theirs", "prefix"),
    [
        (sdk.AttentionKind, explanation_pb2.AttentionKind, "ATTENTION_KIND"),
        (sdk.CandidateFate, explanation_pb2.CandidateFate, "CANDIDATE_FATE"),
        (sdk.CandidateReason, explanation_pb2.CandidateReason, "CANDIDATE_REASON"),
        (sdk.FinishReason, pb.FinishReason, "FINISH_REASON"),
        (sdk.ProtectedPattern, pb.ProtectedPattern, "PROTECTED_PATTERN"),
        (sdk.GlossaryOutcome, pb.GlossaryOutcome, "GLOSSARY_OUTCOME"),
        (sdk.QualityFlag, pb.QualityFlag, "QUALITY_FLAG"),
    ],
)
def test_every_value_of_the_wire_has_its_counterpart(ours: Any, theirs: Any, prefix: str) -> None:
    assert {f"{prefix}_{each.name}": each.value for each in ours} == dict(theirs.items())


def test_every_error_is_a_translation_error() -> None:
    errors = [value for name, value in vars(sdk).items() if name.endswith("Error")]
    assert len(errors) == 11
    assert all(issubclass(error, sdk.TranslationError) for error in errors)


REQUEST = pb.TranslateTextRequest(contents=["a"])
CALLS: dict[str, tuple[Any, ...]] = {
    "translate_one": ("a",),
    "list_models": (),
    "translate_stream": (["a"],),
    "translate_progressively": ("a",),
    "replay": (sdk.Capsule(exchanges=(sdk.Exchange(request=REQUEST.SerializeToString(), translation=b""),)),),
}


@pytest.mark.parametrize("kind", [sdk.TranslationClient, sdk.AsyncTranslationClient])
@pytest.mark.parametrize("call", CALLS)
async def test_calls_of_a_closed_client_raise(script: Script, kind: Any, call: str) -> None:
    client = kind(script.address)
    await finished(client.close())
    with pytest.raises(RuntimeError, match="the client is closed"):
        await finished(getattr(client, call)(*CALLS[call]))
