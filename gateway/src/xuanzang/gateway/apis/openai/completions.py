"""OpenAI's chat completions, as far as a translation is one: the last message of the user is the text."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from xuanzang.client import Model, ProgressiveTranslation, TranslateOptions, TranslationError
from xuanzang.gateway.apis.openai.prompts import Prompt, directions, is_instruction, read_prompt
from xuanzang.gateway.apis.openai.responses import ResponseEvents
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, Handler, routes_of
from xuanzang.gateway.entry.parameters import FailFastList, Message, validated
from xuanzang.gateway.errors import Fault, RefusedError, bad_request, fault_of, not_found
from xuanzang.gateway.languages import base, code_of, pivots, targets_by_source, unless_automatic
from xuanzang.gateway.translation import TranslationJob, log_models, translate, with_served_codes

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
# Firefox's 85 pairs with English and everything between their languages are 2,000.
_MAX_LISTED_PAIRS = 4096
_AUTOMATIC = "auto-"


class _Part(BaseModel):
    type: Literal["text", "input_text", "output_text"]
    text: str


class _ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[FailFastList[_Part], Field(max_length=1024)] | None = None

    @property
    def is_system(self) -> bool:
        return self.role in ("system", "developer")

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
    terms: FailFastList[_Term] = Field(default_factory=list, max_length=1000)
    pass_through_unserved: bool | None = None


def _is_set(value: object) -> bool:
    """Return whether a field asks for something."""
    return value not in (None, False, [], {}, "")


class _BaseRequest(BaseModel):
    """Fields of both calls; others have no effect: the search draws nothing and has its own limits."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model: str
    stream: bool | None = None
    translation_options: _TranslationOptions = Field(default_factory=_TranslationOptions)


class _ChatRequest(_BaseRequest):
    """A request for a completion."""

    messages: FailFastList[_ChatMessage] = Field(min_length=1, max_length=1024)
    response_format: dict[str, Any] | None = None


class _ResponseRequest(_BaseRequest):
    """A request for a response."""

    input: str | Annotated[FailFastList[_ChatMessage], Field(max_length=1024)]
    instructions: str | None = None

    @property
    def messages(self) -> list[_ChatMessage]:
        """Messages, as requests for completions have them."""
        given = [_ChatMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        system = [_ChatMessage(role="system", content=self.instructions)] if self.instructions else []
        return [*system, *given]


_Request = _ChatRequest | _ResponseRequest
# Fields that would change the answer, each with values that do not.
_REFUSED: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("audio", "background", "conversation", "function_call", "functions", "logit_bias"), ()),
        **dict.fromkeys(("logprobs", "previous_response_id", "prompt", "stop", "tools", "web_search_options"), ()),
        "modalities": (["text"],),
        "n": (1,),
        "top_logprobs": (0,),
    }
)
# Those of sampling, limits and labels, which all programs send: not worth a header.
_EXPECTED = frozenset(
    {
        *("frequency_penalty", "max_completion_tokens", "max_output_tokens", "max_tokens", "metadata", "n"),
        *("modalities", "parallel_tool_calls", "presence_penalty", "reasoning", "reasoning_effort", "seed", "store"),
        *("stream_options", "temperature", "text", "tool_choice", "top_p", "truncation", "user"),
    }
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
        calls: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/chat/completions", self.complete),
            ("POST", "/v1/responses", self.respond),
            ("GET", "/v1/models/{id:path}", self.model),
        ]
        return routes_of(calls, style, self._state)

    async def model(self, call: Call) -> Response:
        """Answer /v1/models/ID."""
        listed = {each["id"]: each for each in _all_pairs(await call.client.list_models(timeout=call.seconds))}
        if call.path["id"] not in listed:
            raise _no_model(call.path["id"])
        return JSONResponse(listed[call.path["id"]])

    async def complete(self, call: Call) -> Response:
        """Answer /v1/chat/completions."""
        request = await call.apart(partial(validated, _ChatRequest, call.body))
        member = _member(request.response_format)
        if request.stream and member:
            raise bad_request("response_format", "must be text in a stream")
        text, options = await self._asked(call, request)
        if request.stream:
            return await _stream(call, text, options, _Chunks(call, request.model))
        translated = await _translated(call, text, options)
        content = json.dumps({member: translated}, ensure_ascii=False) if member else translated
        message = {"role": "assistant", "content": content, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return JSONResponse(_completion(call, request.model, "chat.completion", choice))

    async def respond(self, call: Call) -> Response:
        """Answer /v1/responses."""
        request = await call.apart(partial(validated, _ResponseRequest, call.body))
        form = (request.model_extra or {}).get("text")
        if isinstance(form, dict) and form.get("format", {"type": "text"}) != {"type": "text"}:
            raise bad_request("text.format", "must be text")
        text, options = await self._asked(call, request)
        events = ResponseEvents(call.id, request.model)
        if request.stream:
            return await _stream(call, text, options, events)
        return JSONResponse(events.response(await _translated(call, text, options)))

    async def _asked(self, call: Call, request: _Request) -> tuple[str, TranslateOptions]:
        """Return the text of a request and the options of its translation."""
        _require_harmless(call, request.model_extra or {})
        prompt, instructed = await call.apart(partial(_prompt_of, request))
        options = _named_languages(request, prompt, instructed, await call.client.list_models(timeout=call.seconds))
        if any(each.is_system and each.text.strip() for each in request.messages):
            call.ignored.append("system")
        if request.translation_options.terms:
            options["glossary"] = {each.source: each.target for each in request.translation_options.terms}
        options["pass_through_unserved"] = request.translation_options.pass_through_unserved
        if prompt.has_placeholders:
            options["protected_patterns"] = ("placeholder", "tag")
        return prompt.text, options


async def _translated(call: Call, text: str, options: TranslateOptions) -> str:
    source, target = options.pop("source_language", None), options.pop("target_language", None) or ""
    (result,) = await translate(call, TranslationJob(texts=[text], source=source, target=target, options=options))
    return result.text


def _require_harmless(call: Call, others: Mapping[str, Any]) -> None:
    """Refuse fields that would change the answer, and note unusual ones without an effect."""
    for name, value in others.items():
        if _is_set(value) and name in _REFUSED and value not in _REFUSED[name]:
            raise bad_request(name, "is not supported: the answer is one translation of the text")
        if _is_set(value) and name not in _EXPECTED:
            call.ignored.append(name)


def listed_pairs(models: Sequence[Model]) -> list[dict[str, Any]]:
    """Return pairs of languages as models of OpenAI's: `auto-en`, whose texts tell their language, and `zh-en`.

    Args:
        models: Models that the caller may use.

    Returns:
        At most 4,096, those of two models, which have a field `pivot`, last.
    """
    return sorted(_all_pairs(models), key=lambda each: "pivot" in each)[:_MAX_LISTED_PAIRS]


def _all_pairs(models: Sequence[Model]) -> list[dict[str, Any]]:
    pairs, pivoted = targets_by_source(models), pivots(models)
    through = {f"{source}-{target}": language for (source, target), language in pivoted.items()}
    targets = sorted({target for targets in pairs.values() for target in targets})
    named = [f"{source}-{target}" for source, targets in pairs.items() for target in targets]
    return [
        {"id": each, "object": "model", "created": 0, "owned_by": "xuanzang"}
        | ({"pivot": through[each]} if each in through else {})
        for each in (*(f"{_AUTOMATIC}{target}" for target in targets), *named)
    ]


def _prompt_of(request: _Request) -> tuple[Prompt, tuple[str | None, str | None]]:
    """Return the text of a request, and the languages of its system messages, which are not followed otherwise.

    Raises:
        RefusedError: There is no text, or it holds instructions that would be translated with it.
    """
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "user" or not last.text:
        raise bad_request("messages", "must end with a message of the user, which is the text")
    prompt = read_prompt(last.text)
    if prompt is None and is_instruction(last.text):
        raise bad_request("messages", "must end with a text alone: a translation model follows no instructions")
    system = "\n".join(each.text for each in request.messages if each.is_system)
    return prompt or Prompt(text=last.text), directions(system)


def _named_languages(
    request: _Request, prompt: Prompt, instructed: tuple[str | None, str | None], models: Sequence[Model]
) -> TranslateOptions:
    """Return languages and model; what options and prompt say goes before the name of a pair.

    Args:
        instructed: Languages of the system message, source and target.
    """
    pairs = targets_by_source(models)
    served = sorted({*pairs, *(target for targets in pairs.values() for target in targets)})
    named = _pair(request.model, pairs, served)
    if named is None and request.model.partition("/")[0] not in {each.name for each in models}:
        raise _no_model(request.model)
    asked_source = unless_automatic(request.translation_options.source_lang) or prompt.source
    asked_target = request.translation_options.target_lang or prompt.target
    if named and instructed[1] and not asked_target and base(instructed[1]) != base(named[1]):
        raise bad_request("messages", f"must not ask for {instructed[1]}: the model translates into {named[1]}")
    usual_source, usual_target = named or instructed
    codes = asked_source or usual_source, asked_target or usual_target
    source, target = (code and code_of(code, served) for code in codes)
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
    """Return the member of a JSON object for the translation; None: the translation is the whole answer."""
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


class _Events(Protocol):
    """Events of a stream, as a call has them."""

    def begin(self) -> Iterator[str]:
        """Yield the events before the text."""

    def part(self, delta: str) -> str:
        """Return the event of a part of the text."""

    def end(self) -> Iterator[str]:
        """Yield the events after the text."""


async def _stream(call: Call, text: str, options: TranslateOptions, events: _Events) -> Response:
    options = await with_served_codes(call, options)
    parts = call.client.translate_progressively(text, timeout=call.seconds, **options)
    # An error before the first part sets the HTTP status.
    first = await anext(parts)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_written(call, events, first, parts), media_type="text/event-stream", headers=headers)


async def _written(
    call: Call, events: _Events, first: ProgressiveTranslation, parts: AsyncGenerator[ProgressiveTranslation, None]
) -> AsyncGenerator[str, None]:
    part = first
    try:
        for event in events.begin():
            yield event
        while True:
            if part.text_delta:
                yield events.part(part.text_delta)
            if part.translation is not None:
                log_models(call, [part.translation])
            part = await anext(parts)
    except StopAsyncIteration:
        for event in events.end():
            yield event
    except TranslationError as error:
        yield f"data: {json.dumps({'error': _error(fault_of(error))}, ensure_ascii=False)}\n\n"
    finally:
        await parts.aclose()


class _Chunks:
    """Events of a completion."""

    def __init__(self, call: Call, model: str) -> None:
        self._call = call
        self._model = model

    def begin(self) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})

    def part(self, delta: str) -> str:
        return self._chunk({"content": delta})

    def end(self) -> Iterator[str]:
        yield self._chunk({}, finish="stop")
        yield "data: [DONE]\n\n"

    def _chunk(self, delta: Mapping[str, str], *, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = _completion(self._call, self._model, "chat.completion.chunk", choice)
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
