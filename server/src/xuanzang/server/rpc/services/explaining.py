"""Requests for explanations: what they may ask, and their responses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.scheduling.call import Call
from xuanzang.server.engine.terminology.glossaries import GlossaryFolder
from xuanzang.server.engine.types import Hypothesis
from xuanzang.server.explanation.explainer import AttentionChoice
from xuanzang.server.rpc.messages import requests, responses
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_LAYERS = 64
"""Elements of `attention_layers`."""

_KINDS = frozenset(explanation_pb2.AttentionKind.values()) - {explanation_pb2.ATTENTION_KIND_UNSPECIFIED}
_ONLY_BEAM_SEARCH = "cannot be explained: only a whole beam search is"
_NOT_RETURNED = "must be false: explanations do not have it"
_NOT_KEPT = "cannot be explained: no terms may be kept"
_REFUSED_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "glossary": _NOT_KEPT,
        "glossary_entries": _NOT_KEPT,
        "protected_patterns": _NOT_KEPT,
        "return_alternatives": _ONLY_BEAM_SEARCH,
        "return_provenance": _NOT_RETURNED,
        "return_quality": _NOT_RETURNED,
    }
)


async def read_request(
    request: pb.ExplainTranslationRequest, resolve: requests.Resolve, glossaries: GlossaryFolder
) -> tuple[Call, AttentionChoice]:
    """Check a request and fill in the defaults, as `requests.read_settings` does; its hypotheses have scores."""
    violations = list(_violations(request))
    checked = await requests.read_settings(
        request.settings, (request.content,), resolve, glossaries, violations=violations
    )
    if checked.kept_texts:
        description = "has nothing to explain: it is not in a source language; name source_language_code if it is"
        raise InvalidInputError([FieldViolation(field="content", description=description)])
    kinds = request.attention_kinds or (explanation_pb2.ATTENTION_KIND_CROSS,)
    choice = AttentionChoice(kinds=kinds, layers=request.attention_layers, heads=request.attention_heads)
    return dataclasses.replace(checked, return_scores=True), choice


def response(
    call: Call, hypotheses: Sequence[Hypothesis], explanation: explanation_pb2.Explanation
) -> pb.ExplainTranslationResponse:
    """Return the translation of a call and what explains it; hypotheses have tokens only if the call asks for them."""
    if not call.options.token_details:
        hypotheses = [dataclasses.replace(each, tokens=()) for each in hypotheses]
    return pb.ExplainTranslationResponse(
        translation=responses.translation(call, hypotheses),
        explanation=explanation,
        model=call.model.name,
        model_version=str(call.model.version),
    )


def _violations(request: pb.ExplainTranslationRequest) -> Iterable[FieldViolation]:
    if not request.content.strip():
        yield FieldViolation(field="content", description="must not be empty or only white space")
    settings = request.settings
    if settings.options.HasField("sampling"):
        yield FieldViolation(field="options.sampling", description=_ONLY_BEAM_SEARCH)
    if settings.options.partial_on_deadline:
        yield FieldViolation(field="options.partial_on_deadline", description=_ONLY_BEAM_SEARCH)
    for name, description in _REFUSED_SETTINGS.items():
        if getattr(settings, name):
            yield FieldViolation(field=name, description=description)
    if settings.content_format in (pb.CONTENT_FORMAT_HTML, pb.CONTENT_FORMAT_XML):
        yield FieldViolation(field="content_format", description="cannot be explained: only text without tags is")
    yield from _attention_violations(request)


def _attention_violations(request: pb.ExplainTranslationRequest) -> Iterable[FieldViolation]:
    for index, kind in enumerate(request.attention_kinds):
        if kind not in _KINDS:
            description = "must be ATTENTION_KIND_CROSS, ATTENTION_KIND_ENCODER or ATTENTION_KIND_DECODER"
            yield FieldViolation(field=f"attention_kinds[{index}]", description=description)
    for name, limit in (("attention_kinds", len(_KINDS)), ("attention_layers", MAX_LAYERS)):
        values = list(getattr(request, name))
        if len(values) > limit:
            yield FieldViolation(field=name, description=f"must have at most {limit} elements, has {len(values)}")
        elif len(set(values)) < len(values):
            yield FieldViolation(field=name, description="must have no element twice")
