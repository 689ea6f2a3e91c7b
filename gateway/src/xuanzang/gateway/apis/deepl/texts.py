"""DeepL's API, version 2: texts, languages, usage, glossaries, documents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import ContentFormat, TranslateOptions
from xuanzang.gateway.apis.deepl.documents import FORMALITIES, DeepLDocuments
from xuanzang.gateway.apis.deepl.glossaries import NAMES, DeepLGlossaries, glossary_for
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, Handler, SharedState, routes_of
from xuanzang.gateway.entry.parameters import TRUTH_VALUES, UNSERVED, Choice, Parameters, checked_texts, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import base, listed_pivots, name_of, pivots, targets_by_source, unless_automatic
from xuanzang.gateway.settings import FORM_BYTES
from xuanzang.gateway.translation import Translated, TranslationJob, translate

_KEY_HINT = "the header authorization: DeepL-Auth-Key KEY"
_READ = frozenset(
    {
        *("auth_key", "glossary_id", "ignore_tags", "non_splitting_tags", UNSERVED, "placeholders", "source_lang"),
        *("splitting_tags", "tag_handling", "target_lang", "text"),
    }
)
_MARKUP = ("html", "xml")
# Parameters without an effect.
_CHOICES: Mapping[str, Choice] = MappingProxyType(
    {
        "enable_beta_languages": Choice(fulfilled=TRUTH_VALUES),
        "formality": FORMALITIES,
        "model_type": Choice(
            fulfilled=("latency_optimized", "prefer_quality_optimized"), ignored=("quality_optimized",)
        ),
        "outline_detection": Choice(fulfilled=("1", "true"), ignored=("0", "false")),
        "preserve_formatting": Choice(fulfilled=TRUTH_VALUES),
        "show_billed_characters": Choice(fulfilled=TRUTH_VALUES),
        # Texts are translated sentence by sentence, and their lines stay, whatever a caller thinks of them.
        "split_sentences": Choice(fulfilled=(*TRUTH_VALUES, "default", "nonewlines")),
        "tag_handling_version": Choice(fulfilled=("v1", "v2")),
    }
)
# These would change what a translation says.
_REFUSED = frozenset(
    {"custom_instructions", "glossary_ids", "style_id", "translation_memory_id", "translation_memory_threshold"}
)
_MAX_TAGS = 64
_MAX_LISTED = 256
_TAG = re.compile(r"[A-Za-z_][\w:.-]{0,63}")
_OPENING = re.compile(r"<([A-Za-z_][\w:.-]{0,63})(?=[\s/>])")
# Marks an element as not to be translated, in HTML and XML alike.
_MARK = ' translate="no" data-ignored=""'
# DeepL's number for no limit; the server's quotas are refusals with a delay.
_UNLIMITED = 10**12
# Official clients refuse "EN" and "PT" as targets, so a model for them is listed as these.
_VARIANTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"en": ("EN-GB", "EN-US"), "pt": ("PT-BR", "PT-PT")})
_STATUSES: Mapping[int, HTTPStatus] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: HTTPStatus.FORBIDDEN,
        # A language or model that is not served; to its clients 404 is a wrong address or glossary.
        HTTPStatus.NOT_FOUND: HTTPStatus.BAD_REQUEST,
        # They repeat what gets 501.
        HTTPStatus.NOT_IMPLEMENTED: HTTPStatus.BAD_REQUEST,
        # A glossary that is not there.
        HTTPStatus.GONE: HTTPStatus.NOT_FOUND,
    }
)


def render(fault: Fault) -> Response:
    """Return an error in DeepL's form."""
    status = _STATUSES.get(fault.status, fault.status)
    return JSONResponse({"message": fault.named(NAMES).description}, status, headers=fault.headers)


class DeepL(Api):
    """Handlers of the API."""

    def __init__(self, state: SharedState, *, documents: DeepLDocuments) -> None:
        """Make the handlers."""
        super().__init__(state)
        self._documents = documents

    @property
    def routes(self) -> list[Route]:
        """Addresses of the API."""
        style = ApiStyle(name="deepl", render=render, key_parameters=("auth_key",), key_hint=_KEY_HINT)
        # Clients may send parameters of GET as a form, with POST.
        calls: list[tuple[str, str, Handler]] = [
            ("GET POST", "/v2/translate", self.translate),
            ("GET POST", "/v2/languages", self.languages),
            ("GET POST", "/v2/usage", self.usage),
            *DeepLGlossaries().calls,
            *self._documents.calls,
        ]
        uploading = replace(style, key_parameters=(), reads_parameters=False)
        max_bytes = self._state.settings.max_document_bytes + FORM_BYTES
        upload, limit = ("POST", "/v2/document", self._documents.upload), self._state.limits.uploads
        refused = [("", "/v2/{rest:path}", self.refuse), ("", "/v3/{rest:path}", self.refuse)]
        return [
            *routes_of(calls, style, self._state),
            *routes_of([upload], uploading, self._state, limit=limit, max_bytes=max_bytes),
            *routes_of(refused, style, self._state),
        ]

    async def translate(self, call: Call) -> Response:
        """Answer /v2/translate."""
        given = call.parameters
        texts, job = await call.apart(partial(self._read, call))
        if glossary := given.text("glossary_id"):
            name = await glossary_for(call, glossary, source=job.source, target=job.target)
            job = replace(job, options=job.options | {"glossary_name": name})
        results = await translate(call, job)
        self._documents.usage.count(call.caller.holder.caller, sum(map(len, texts)))
        more = {"model_type_used": "latency_optimized"} if "model_type" in given.names else {}
        is_marked = "ignore_tags" in given.names
        rows = zip(texts, results, strict=True)
        return await call.apart(
            lambda: JSONResponse(
                {
                    "translations": [
                        _translation(text, result, job.target, is_marked=is_marked) | more for text, result in rows
                    ]
                }
            )
        )

    def _read(self, call: Call) -> tuple[Sequence[str], TranslationJob]:
        """Return the texts of a request, and how they are translated."""
        given = call.parameters
        _note_ignored(call)
        texts = checked_texts(given.texts("text"), field="text", maximum=self._max_texts)
        _require_usual_blocks(given, texts)
        target, form = given.text("target_lang"), given.choice("tag_handling", _MARKUP)
        if target is None:
            raise bad_request("target_lang", "must be given")
        ignored = _tags(given, "ignore_tags")
        if ignored and form is None:
            raise bad_request("ignore_tags", "needs tag_handling")
        is_html = form == "html"
        return texts, TranslationJob(
            texts=[without_translation(text, ignored, is_html=is_html) for text in texts],
            source=unless_automatic(given.text("source_lang")),
            target=target,
            options=_options(given),
        )

    async def languages(self, call: Call) -> Response:
        """Answer /v2/languages."""
        kind = call.parameters.choice("type", ("source", "target")) or "source"
        models = await call.client.list_models(timeout=call.seconds)
        pairs, pivoted = targets_by_source(models), pivots(models)
        if kind == "source":
            ends = {code: [target for source, target in pivoted if source == code] for code in pairs}
            return JSONResponse(
                [_language(code) | listed_pivots("pivoted_targets", _variants(ends[code])) for code in pairs]
            )
        targets = sorted({target for targets in pairs.values() for target in targets})
        starts = {code: [source.upper() for source, target in pivoted if target == code] for code in targets}
        return JSONResponse(
            [
                _language(variant) | {"supports_formality": False} | listed_pivots("pivoted_sources", starts[code])
                for code in targets
                for variant in _variants([code])
            ]
        )

    async def usage(self, call: Call) -> Response:
        """Answer /v2/usage with what this gateway has translated for the caller since it was started."""
        await call.client.list_models(timeout=call.seconds)
        return JSONResponse(
            {"character_count": self._documents.usage.of(call.caller.holder.caller), "character_limit": _UNLIMITED}
        )

    async def refuse(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """Answer calls that do not exist here."""
        message = "this gateway has no such call of DeepL's API: docs/protocols.md lists those that it has"
        return JSONResponse({"message": message}, HTTPStatus.NOT_FOUND)


def _require_usual_blocks(parameters: Parameters, texts: Sequence[str]) -> None:
    """Refuse tags that are to split sentences, or not to: elements among text never split, and others always do."""
    tags = {name: _tags(parameters, name) for name in ("non_splitting_tags", "splitting_tags")}
    if not any(tags.values()):
        return
    present = {found[1].lower() for text in texts for found in _OPENING.finditer(text)}
    for name, listed in tags.items():
        if present.intersection(map(str.lower, listed)):
            raise bad_request(name, "is supported only for tags that no text has")


def _note_ignored(call: Call) -> None:
    """Refuse parameters that would change a translation, and note others without an effect."""
    given = call.parameters
    if refused := given.names & _REFUSED:
        raise bad_request(min(refused), "is not supported by this gateway")
    call.ignore_others(_READ | _CHOICES.keys())
    for name, choice in _CHOICES.items():
        is_fulfilled = choice.is_fulfilled(given, name)
        has_effect = name != "outline_detection" or given.choice("tag_handling", _MARKUP) == "xml"
        if has_effect and not is_fulfilled:
            call.ignored.append(name)


def _options(parameters: Parameters) -> TranslateOptions:
    chosen = unserved(parameters.scalar(UNSERVED))
    tags = parameters.choice("tag_handling", _MARKUP)
    if tags is not None:
        chosen["content_format"] = cast("ContentFormat", tags)
    if "placeholders" in parameters.names:
        # This gateway's addition, as is protecting them without tags.
        families = ",".join(parameters.texts("placeholders"))
        chosen["placeholders"] = [family.strip() for family in families.split(",") if family.strip()]
    return chosen


def _tags(parameters: Parameters, parameter: str) -> frozenset[str]:
    """Return names of tags, which come as a list or with commas between them."""
    listed = ",".join(parameters.texts(parameter)).split(",", _MAX_LISTED)
    names = [name.strip() for name in listed if name.strip()]
    if len(names) > _MAX_TAGS or not all(_TAG.fullmatch(name) for name in names):
        form = "of letters, digits and _ : . -, which begin with a letter or _"
        raise bad_request(parameter, f"must be at most {_MAX_TAGS} names of tags, {form}")
    return frozenset(names)


def without_translation(text: str, tags: Collection[str], *, is_html: bool) -> str:
    """Return a text of markup whose elements of some names are marked as not to be translated.

    Args:
        tags: Names of the elements.
        is_html: Whether capital letters count as small ones in them.
    """
    if not tags:
        return text
    named = frozenset(map(str.lower, tags)) if is_html else frozenset(tags)

    def marked(found: re.Match[str]) -> str:
        name = found[1].lower() if is_html else found[1]
        return f"{found[0]}{_MARK}" if name in named else found[0]

    return _OPENING.sub(marked, text)


def _translation(text: str, result: Translated, target: str, *, is_marked: bool) -> dict[str, Any]:
    return {
        # The field has no value for text without a language, such as a name that was copied.
        "detected_source_language": base(result.source or target).upper(),
        "text": result.text.replace(_MARK, "") if is_marked else result.text,
        "billed_characters": len(text),
    }


def _variants(targets: Iterable[str]) -> list[str]:
    """Return the target languages as DeepL has them, with their regions."""
    return [variant.upper() for code in targets for variant in _VARIANTS.get(code, (code,))]


def _language(code: str) -> dict[str, Any]:
    return {"language": code.upper(), "name": name_of(code)}
