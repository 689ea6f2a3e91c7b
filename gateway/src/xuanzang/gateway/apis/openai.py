"""OpenAI's chat completions, as far as a translation is one: the last message of the user is the text."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from xuanzang.client import Model, ProgressiveTranslation, TranslateOptions, TranslationError
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, Endpoint
from xuanzang.gateway.entry.messages import Message, Several, validated
from xuanzang.gateway.errors import Fault, RefusedError, bad_request, fault_of, not_found
from xuanzang.gateway.languages import code_of, targets_by_source, unless_automatic
from xuanzang.gateway.translation import TranslationJob, translate, with_served_codes

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "messages",
        "content": "messages",
        "source_language_code": "translation_options.source_lang",
        "target_language_code": "translation_options.target_lang",
        "glossary_entries": "translation_options.terms",
        "pass_through_unserved": "translation_options.pass_through_unserved",
    }
)
_MAX_LISTED_PAIRS = 256
_AUTOMATIC = "auto-"


class _Part(Message):
    type: Literal["text"]
    text: str


class _ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Several[_Part] | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content) if isinstance(self.content, list) else self.content or ""


class _Term(Message):
    source: str
    target: str


class _TranslationOptions(Message):
    """Options that qwen-mt, a translation model with this API, adds to OpenAI's, and one of this gateway."""

    source_lang: str | None = Field(default=None, max_length=64)
    target_lang: str | None = Field(default=None, max_length=64)
    terms: Several[_Term] = Field(default_factory=list, max_length=1000)
    pass_through_unserved: bool | None = None


Ignored = Annotated[Any, BeforeValidator(lambda _: None)]
"""A field without an effect, whatever its value: the search draws nothing, and has limits of its own."""


class _ChatRequest(Message):
    model: str
    messages: Several[_ChatMessage] = Field(min_length=1, max_length=1024)
    stream: bool | None = None
    n: Literal[1] | None = None
    response_format: dict[str, Any] | None = None
    translation_options: _TranslationOptions = Field(default_factory=_TranslationOptions)
    frequency_penalty: Ignored = None
    logprobs: Literal[False] | None = None
    max_completion_tokens: Ignored = None
    max_tokens: Ignored = None
    metadata: Ignored = None
    presence_penalty: Ignored = None
    reasoning: Ignored = None
    reasoning_effort: Ignored = None
    seed: Ignored = None
    store: Literal[False] | None = None
    stream_options: Ignored = None
    temperature: Ignored = None
    top_p: Ignored = None
    user: Ignored = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A text, and the languages that a prompt names."""

    text: str
    source: str | None = None
    target: str | None = None
    has_placeholders: bool = False
    """True if tags and names in braces stand for what is not text."""


_NAME = r"[^\n]{1,64}?"
# Programs that cannot send a bare text: their prompts tell where it begins, and its languages by name.
_PROMPTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        # Nextcloud's integration_openai.
        rf"Translate the following text (?:from (?P<source>{_NAME}) )?to (?P<target>{_NAME}): \n\n(?P<text>.+)",
        # BabelDOC.
        (
            rf";; Treat next line as plain text input and translate it into (?P<target>{_NAME}), output translation "
            r"ONLY\. If translation is unnecessary [^\n]*NO explanations\. NO notes\. Input:\n\n(?P<text>.+)"
        ),
    )
)
# How prompts of programs begin whose answers would be no translation, and a heading that they have: BabelDOC's for many
# paragraphs as JSON, and Open WebUI's for titles, tags and questions.
_INSTRUCTIONS = (("You are ", "\n## Rules\n"), ("### Task:\n", "\n### Guidelines:\n"))
# BabelDOC's prompt for a paragraph ends with a rule and the text. It has another one, for many paragraphs as JSON, and
# makes this one for each of them if that is refused.
_PARAGRAPH = "\n\nNow translate the following text:\n\n"
_PARAGRAPH_RULE = re.compile(
    rf"Output ONLY the translated (?P<target>{_NAME}) text\. No explanations, no backticks, no extra text\.\Z"
)
_RULE_CHARACTERS = 256
# Instructions to translate, whose own words would be translated, too: a line of them before the text.
_TO_TRANSLATE = re.compile(
    r"(?:please )?translate\b[^\n]{0,200}\b(?:in)?to\b[^\n]{0,100}:[ \t]*\n"
    r"|请?[把将][^\n]{0,60}译[成为到][^\n]{0,60}[：:][ \t]*\n",
    re.IGNORECASE,
)


def render(fault: Fault) -> Response:
    """Return an error in OpenAI's form."""
    return JSONResponse({"error": _error(fault)}, fault.status, headers=fault.headers)


class OpenAI(Api):
    """Handlers of the API."""

    @property
    def routes(self) -> list[Route]:
        """Addresses of the API, but for the list of models, which is that of the gateway's own API."""
        style = ApiStyle(name="openai", render=render, reads_parameters=False)
        return [
            Route("/v1/chat/completions", Endpoint(self.complete, style, self._state), methods=["POST"]),
            Route("/v1/models/{id:path}", Endpoint(self.model, style, self._state), methods=["GET"]),
        ]

    async def model(self, call: Call) -> Response:
        """Answer /v1/models/ID."""
        listed = {each["id"]: each for each in listed_pairs(await call.client.list_models(timeout=call.seconds))}
        if call.path["id"] not in listed:
            raise _no_model(call.path["id"])
        return JSONResponse(listed[call.path["id"]])

    async def complete(self, call: Call) -> Response:
        """Answer /v1/chat/completions."""
        request = validated(_ChatRequest, call.body)
        asked = _asked(request)
        models = await call.client.list_models(timeout=call.seconds)
        options = _named_languages(request, asked, models)
        if request.translation_options.terms:
            options["glossary"] = {each.source: each.target for each in request.translation_options.terms}
        options["pass_through_unserved"] = request.translation_options.pass_through_unserved
        if asked.has_placeholders:
            options["protected_patterns"] = ("placeholder", "tag")
        member = _member(request.response_format)
        if request.stream:
            if member:
                raise bad_request("response_format", "must be text in a stream")
            return await _stream(call, asked.text, options, request.model)
        source, target = options.pop("source_language", None), options.pop("target_language", None) or ""
        job = TranslationJob(texts=[asked.text], source=source, target=target, options=options, timeout=call.seconds)
        (result,) = await translate(call.client, job)
        content = json.dumps({member: result.text}, ensure_ascii=False) if member else result.text
        message = {"role": "assistant", "content": content, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return JSONResponse(_completion(call, request.model, "chat.completion", choice))


def listed_pairs(models: Sequence[Model]) -> list[dict[str, Any]]:
    """Return pairs of languages as models of OpenAI's: `auto-en`, whose texts tell their language, and `zh-en`.

    Args:
        models: Models that the caller may use.
    """
    pairs = targets_by_source(models)
    targets = sorted({target for targets in pairs.values() for target in targets})
    named = [f"{source}-{target}" for source, targets in pairs.items() for target in targets]
    ids = [*(f"{_AUTOMATIC}{target}" for target in targets), *named[:_MAX_LISTED_PAIRS]]
    return [{"id": each, "object": "model", "created": 0, "owned_by": "xuanzang"} for each in ids]


def _asked(request: _ChatRequest) -> _Asked:
    """Return the text of a request; instructions are followed by no translation model, and refused."""
    last = request.messages[-1]
    if last.role != "user" or not last.text:
        raise bad_request("messages", "must end with a message of the user, which is the text")
    if prompted := _prompted(last.text):
        return prompted
    if any(each.role in ("system", "developer") and each.text.strip() for each in request.messages):
        raise bad_request("messages", "must have no system message: a translation model follows no instructions")
    is_instruction = any(last.text.startswith(start) and heading in last.text for start, heading in _INSTRUCTIONS)
    if is_instruction or _TO_TRANSLATE.match(last.text):
        raise bad_request("messages", "must end with a text alone: a translation model follows no instructions")
    return _Asked(text=last.text)


def _prompted(prompt: str) -> _Asked | None:
    """Return the text of a prompt of known form, whose time to read grows with its length only."""
    for pattern in _PROMPTS:
        if found := pattern.fullmatch(prompt):
            named = found.groupdict()
            return _Asked(text=named["text"], source=named.get("source"), target=named["target"])
    instructions, _, text = prompt.partition(_PARAGRAPH)
    rule = _PARAGRAPH_RULE.search(instructions[-_RULE_CHARACTERS:])
    if instructions.startswith("You are ") and rule and text:
        return _Asked(text=text, target=rule["target"], has_placeholders=True)
    return None


def _named_languages(request: _ChatRequest, asked: _Asked, models: Sequence[Model]) -> TranslateOptions:
    """Return languages and model; what options and prompt say goes before the name of a pair."""
    pairs = targets_by_source(models)
    served = sorted({*pairs, *(target for targets in pairs.values() for target in targets)})
    named = _pair(request.model, pairs, served)
    if named is None and request.model.partition("/")[0] not in {each.name for each in models}:
        raise _no_model(request.model)
    source, target = named or (None, None)
    asked_source = unless_automatic(request.translation_options.source_lang) or asked.source
    asked_target = request.translation_options.target_lang or asked.target
    source = code_of(asked_source, served) if asked_source else source
    target = code_of(asked_target, served) if asked_target else target
    if named:
        return {"source_language": source, "target_language": target}
    models = [each for each in models if each.name == request.model.partition("/")[0]]
    targets = {target for each in models for target in each.target_languages}
    if target is None and len(targets) > 1:
        raise bad_request("translation_options.target_lang", "must be given, as the model has several")
    target = target or next(iter(targets), None)
    return {"source_language": source, "target_language": target, "model": request.model}


def _pair(name: str, pairs: Mapping[str, Sequence[str]], served: Iterable[str]) -> tuple[str | None, str] | None:
    """Return the languages of a name such as "zh-en" or "auto-zh-Hant"; None if it is not that of a pair."""
    codes = {each.lower(): each for each in served}
    lower = name.lower()
    if lower.startswith(_AUTOMATIC) and lower.removeprefix(_AUTOMATIC) in codes:
        return None, codes[lower.removeprefix(_AUTOMATIC)]
    spelled = {f"{source}-{target}".lower(): (source, target) for source in pairs for target in pairs[source]}
    return spelled.get(lower)


def _member(response_format: Mapping[str, Any] | None) -> str | None:
    """Return the name of the string that is to hold the translation in a JSON object; None if it is to be bare."""
    if response_format is None or response_format.get("type") == "text":
        return None
    try:
        properties = response_format["json_schema"]["schema"]["properties"]
        ((name, schema),) = properties.items()
        fits = response_format["type"] == "json_schema" and schema["type"] == "string"
    except (AttributeError, KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise bad_request("response_format", "must be text, or a json_schema of an object with one string")
    return str(name)


async def _stream(call: Call, text: str, options: TranslateOptions, model: str) -> Response:
    options = await with_served_codes(call.client, options, seconds=call.seconds)
    parts = call.client.translate_progressively(text, timeout=call.seconds, **options)
    # An error before the first part has a status of its own.
    first = await anext(parts)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(call, model, first, parts), media_type="text/event-stream", headers=headers)


async def _events(
    call: Call, model: str, first: ProgressiveTranslation, parts: AsyncGenerator[ProgressiveTranslation, None]
) -> AsyncGenerator[str, None]:
    part, opening = first, {"role": "assistant", "content": ""}
    try:
        yield _chunk(call, model, opening)
        while True:
            if part.text_delta:
                yield _chunk(call, model, {"content": part.text_delta})
            part = await anext(parts)
    except StopAsyncIteration:
        yield _chunk(call, model, {}, finish="stop")
        yield "data: [DONE]\n\n"
    except TranslationError as error:
        yield f"data: {json.dumps({'error': _error(fault_of(error))}, ensure_ascii=False)}\n\n"
    finally:
        await parts.aclose()


def _chunk(call: Call, model: str, delta: Mapping[str, str], *, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = _completion(call, model, "chat.completion.chunk", choice)
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


def _completion(call: Call, model: str, kind: str, choice: Mapping[str, Any]) -> dict[str, Any]:
    named = {"id": f"chatcmpl-{call.id}", "object": kind, "created": int(time.time()), "model": model}
    return {**named, "choices": [choice]}


def _no_model(name: str) -> RefusedError:
    return not_found(f"there is no model {name[:64]!r}: GET /v1/models lists them")


def _error(fault: Fault) -> dict[str, str | None]:
    named = fault.named(_NAMES)
    kind, code = "invalid_request_error", None
    match fault.status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            code = "invalid_api_key"
        case HTTPStatus.NOT_FOUND:
            code = "model_not_found"
        case HTTPStatus.TOO_MANY_REQUESTS:
            kind = code = "rate_limit_exceeded"
        case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = "server_error"
    field = named.violations[0].field if named.violations else None
    return {"message": named.description, "type": kind, "param": field, "code": code}
