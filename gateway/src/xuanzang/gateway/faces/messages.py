"""Messages of the gateway's own API: they are checked, and described in OpenAPI, by what stands here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Language = Annotated[str, Field(min_length=1, max_length=64, description="BCP-47 code, such as zh.")]

Pattern = Literal["url", "email", "code", "placeholder", "number", "tag"]


class Message(BaseModel):
    """Base of all messages: a field that does not exist is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Sampling(Message):
    """Settings of random sampling."""

    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None


class Options(Message):
    """Options of the search, as docs/options.md describes them; those left out have the model's defaults."""

    beam_size: int | None = None
    num_hypotheses: int | None = None
    length_penalty: float | None = None
    min_target_length: int | None = None
    max_target_length: int | None = None
    return_scores: bool | None = None
    coverage_penalty: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    target_prefix: str | None = None
    suppressed_texts: list[str] | None = None
    sampling: Sampling | None = None
    return_alternatives: bool | None = None
    partial_on_deadline: bool | None = None
    refuse_long_sentences: bool | None = None


class _Wish(Message):
    source_language: Language | None = Field(default=None, description="Language of the text; unset: it is detected.")
    target_language: Language
    model: str | None = Field(default=None, description="Name of a model, or name/version.")
    content_format: Literal["text", "html", "xml"] | None = Field(default=None, description="Unset: text.")
    glossary: dict[str, str | list[str]] | None = Field(default=None, description="Translations of terms to keep.")
    glossary_name: str | None = Field(default=None, description="A glossary of the server.")
    protected_patterns: list[Pattern] | None = Field(default=None, description="Kinds of text to keep as they are.")
    options: Options = Field(default_factory=Options)
    timeout_seconds: float | None = Field(default=None, gt=0, description="At most the gateway's own limit.")


class TranslateRequest(_Wish):
    """Texts to translate."""

    texts: list[str] = Field(min_length=1, description="Texts in one language or, without it, in several.")


class StreamRequest(_Wish):
    """A text to translate progressively."""

    text: str = Field(description="Text of one or several sentences.")


class DetectRequest(Message):
    """Texts whose languages are asked for."""

    texts: list[str] = Field(min_length=1)


class Hypothesis(Message):
    """One way to translate a text."""

    text: str
    score: float | None = Field(description="Log-probability in nats, normalised by length; null unless asked for.")
    finish_reason: str = Field(description="end_of_sentence, max_length, copied, deadline or unspecified.")


class Translation(Message):
    """The translation of one text."""

    text: str = Field(description="Text of the best hypothesis.")
    source_language: str
    detection_confidence: float | None = Field(description="Probability of that language; null if it was given.")
    model: str | None = Field(description="Name of the model; null for a text that was in the target language.")
    model_version: str | None
    hypotheses: list[Hypothesis]


class TranslateResponse(Message):
    """Translations, in the order of the texts."""

    translations: list[Translation]


class Part(Message):
    """Event `part` of a stream: text to append to that of the parts before."""

    text_delta: str


class DetectedLanguage(Message):
    """A language that a text may be in."""

    language: str
    confidence: float


class DetectResponse(Message):
    """Languages of each text, likeliest first."""

    detections: list[list[DetectedLanguage]]


class Model(Message):
    """A model that the server offers."""

    name: str
    version: str
    source_languages: list[str]
    target_languages: list[str]
    is_default: bool


class ModelsResponse(Message):
    """The models that the caller may use."""

    models: list[Model]


class Glossary(Message):
    """A glossary that the server holds."""

    name: str
    source_language: str
    target_language: str
    version: str
    entry_count: int


class GlossariesResponse(Message):
    """The glossaries that the server holds."""

    glossaries: list[Glossary]


class Violation(Message):
    """A faulty field of a request."""

    field: str
    description: str


class Problem(Message):
    """Error, as RFC 9457 describes it."""

    type: str
    title: str
    status: int
    detail: str
    violations: list[Violation] | None = None
    retry_after_seconds: float | None = None


ALL: tuple[type[Message], ...] = (
    *(TranslateRequest, StreamRequest, DetectRequest),
    *(TranslateResponse, Part, DetectResponse, ModelsResponse, GlossariesResponse, Problem),
)
"""Requests and answers."""


def schemas(kinds: Iterable[type[Message]]) -> dict[str, Any]:
    """Return the JSON schemas of messages and of what they hold, by name.

    Args:
        kinds: Requests and answers.
    """
    from pydantic.json_schema import models_json_schema  # noqa: PLC0415 - one call of a process asks for it

    pairs = [(kind, "validation") for kind in kinds]
    _, definitions = models_json_schema(pairs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    found: dict[str, Any] = definitions["$defs"]
    return found
