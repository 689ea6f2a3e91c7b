"""Messages of the gateway's own API: the source of its validation and of its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from xuanzang.gateway.entry.parameters import MAX_INT32, FailFastList, Message

Language = Annotated[str, Field(min_length=1, max_length=64, description="BCP-47 code, such as zh.")]

MAX_TERMS = 1000
MAX_TEXTS = 1024

Whole = Annotated[int, Field(ge=-MAX_INT32, le=MAX_INT32)]
Number = Annotated[float, Field(ge=-MAX_INT32, le=MAX_INT32)]

Pattern = Literal["url", "email", "code", "placeholder", "number", "tag"]
Family = Literal[
    "printf",
    "braces",
    "icu",
    "templates",
    "tags",
    "variables",
    "addresses",
    "files",
    "identifiers",
    "handles",
    "code",
]

FewTexts = Annotated[FailFastList[str], Field(max_length=MAX_TEXTS)]


def _few_terms(given: object) -> object:
    if isinstance(given, dict) and len(given) > MAX_TERMS:
        raise ValueError(f"must have at most {MAX_TERMS} terms, has {len(given)}")
    return given


class Sampling(Message):
    """Settings of random sampling."""

    top_k: Whole | None = None
    top_p: Number | None = None
    temperature: Number | None = None
    seed: Whole | None = None


class Options(Message):
    """Options of the search, as docs/options.md describes them; those left out have the model's defaults."""

    beam_size: Whole | None = None
    num_hypotheses: Whole | None = None
    length_penalty: Number | None = None
    min_target_length: Whole | None = None
    max_target_length: Whole | None = None
    return_scores: bool | None = None
    coverage_penalty: Number | None = None
    repetition_penalty: Number | None = None
    no_repeat_ngram_size: Whole | None = None
    target_prefix: str | None = None
    suppressed_texts: FewTexts | None = None
    sampling: Sampling | None = None
    return_alternatives: bool | None = None
    token_details: bool | None = None
    partial_on_deadline: bool | None = None
    refuse_long_sentences: bool | None = None


class BaseRequest(Message):
    """Fields that requests for translations share."""

    source_language: Language | None = Field(default=None, description="Language of the text; unset: it is detected.")
    target_language: Language
    model: str | None = Field(default=None, description="Name of a model, or name/version.")
    content_format: Literal["text", "html", "xml"] | None = Field(default=None, description="Unset: text.")
    glossary: Annotated[dict[str, str | FewTexts] | None, BeforeValidator(_few_terms)] = Field(
        default=None, description="Translations of terms to keep."
    )
    glossary_name: str | None = Field(default=None, description="A glossary of the server.")
    protected_patterns: Annotated[FailFastList[Pattern], Field(max_length=MAX_TERMS)] | None = Field(
        default=None, description="Kinds of text to keep as they are."
    )
    placeholders: Annotated[FailFastList[Family], Field(max_length=MAX_TERMS)] | None = Field(
        default=None, description="Families of placeholders that are carried through the translation."
    )
    return_quality: bool | None = Field(default=None, description="Whether to say how far to trust each hypothesis.")
    return_provenance: bool | None = Field(default=None, description="Whether to say how the translation was made.")
    pass_through_unserved: bool | None = Field(
        default=None,
        description="Whether a text whose detected language is not served is answered as it is, not refused.",
    )
    allow_pivot: bool | None = Field(
        default=None,
        description="Whether two models may translate a pair that no model does; unset: where the server allows it.",
    )
    options: Options = Field(default_factory=Options)
    timeout_seconds: float | None = Field(default=None, gt=0, description="At most the gateway's own limit.")


class TranslateRequest(BaseRequest):
    """Texts to translate."""

    texts: FailFastList[str] = Field(
        min_length=1, max_length=MAX_TEXTS, description="Texts in one language or, without it, in several."
    )


class StreamRequest(BaseRequest):
    """A text to translate progressively."""

    text: str = Field(description="Text of one or several sentences.")


class DetectRequest(Message):
    """Texts whose languages are asked for."""

    texts: FewTexts = Field(min_length=1)


class Token(Message):
    """One token of a hypothesis; positions are in characters (code points) of the source text."""

    text: str = Field(description="Text that it adds to its sentence; empty for the token that ends a sentence.")
    score: float = Field(description="Log-probability in nats.")
    source_start: int = Field(description="First character that it attends to most.")
    source_end: int = Field(description="After the last one; equal to the start if it attends to none.")


class Quality(Message):
    """Quality estimate of a hypothesis; docs/quality.md describes it."""

    acceptable_probability: float | None
    flags: list[str] = Field(description="Suspicions, such as number_lost.")


class Hypothesis(Message):
    """One way to translate a text."""

    text: str
    score: float | None = Field(description="Log-probability in nats, normalised by length; null unless asked for.")
    finish_reason: str = Field(
        description="end_of_sentence, max_length, copied, deadline, unserved_language, placeholder_lost or unspecified."
    )


class DetailedHypothesis(Hypothesis):
    """A hypothesis with its details."""

    token_count: int
    tokens: list[Token] = Field(description="Tokens in the order of the text; empty without token_details.")
    quality: Quality | None = Field(description="Null unless asked for.")
    lost_placeholders: list[str] = Field(description="Placeholders that the translation lost; text is then the source.")


class GlossaryMatch(Message):
    """A term or protected text that occurs in a text, and what became of it."""

    source: str
    source_start: int
    source_end: int
    target: str = Field(description="Translation that the best hypothesis holds; empty if it holds none.")
    outcome: str = Field(description="honoured, not_writable, no_room, not_reached or unspecified.")
    pattern: str = Field(description="Pattern that found it; unspecified for a term.")


class Pivot(Message):
    """The first of two models, if a text was translated through another language; model is then the second."""

    language: str
    model: str
    model_version: str


class Translation(Message):
    """The translation of one text."""

    text: str = Field(description="Text of the best hypothesis.")
    source_language: str = Field(description="Empty for text that is copied, and nothing tells its language.")
    detection_confidence: float | None = Field(description="Probability of that language; null if it is not detected.")
    model: str = Field(description="Name of the model.")
    model_version: str
    hypotheses: list[DetailedHypothesis]
    glossary_matches: list[GlossaryMatch]
    provenance: dict[str, Any] | None = Field(description="How it was made: docs/replay.md. Null unless asked for.")
    pivot: Pivot | None = Field(description="Null for a translation by one model.")


class TranslateResponse(Message):
    """Translations, in the order of the texts."""

    translations: list[Translation]


class Part(Message):
    """Event `part` of a stream: text to append to that of the parts before."""

    text_delta: str


class DetectedLanguage(Message):
    """A language that a text may be in."""

    language: str = Field(description="BCP-47 code, spelled as in /v1/models.")
    confidence: float
    script: str | None = Field(description="Script of Chinese, Hans or Hant, if its characters tell.")


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
    precision: str = Field(description="Number format of the weights, such as int8.")
    residency: str = Field(
        description="Place of the weights: loaded, loading, on_demand (the next request loads them) or failing (the "
        "last request could not load them); empty if the server does not say."
    )
    residency_since: float = Field(description="Time since when, in seconds since 1970; 0 if the server does not say.")
    residency_fault: str = Field(description="Reason why they could not be loaded; empty unless failing.")
    pivoted_source_languages: list[str] = Field(
        description="Languages translated into this model's by two models, where no model does so directly."
    )
    pivot_language: str = Field(description="Language between the two models; empty if there are no such pairs.")


class OpenAIModel(Message):
    """A pair of languages, as a model of OpenAI's API."""

    id: str = Field(description="auto-en for texts that tell their language, or zh-en.")
    object: Literal["model"]
    created: int
    owned_by: str
    pivot: str | None = Field(
        default=None, description="Language between the two models of the pair; absent if one translates it."
    )


class ModelsResponse(Message):
    """The models that the caller may use, and their pairs of languages as OpenAI's API lists models."""

    models: list[Model]
    object: Literal["list"]
    data: list[OpenAIModel]


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
    reason: str = Field(description="Cause as a word, such as server_unavailable; the status as a word if it says all.")
    violations: list[Violation] | None = None
    retry_after_seconds: float | None = None
    detected_languages: list[str] | None = Field(default=None, description="Languages of texts that are not served.")
    served_languages: list[str] | None = Field(default=None, description="Languages that are served instead.")


AttentionKind = Literal["cross", "encoder", "decoder"]
Fate = Literal["kept", "pruned", "finished", "unspecified"]
Index = Annotated[int, Field(ge=0, le=MAX_INT32)]

MAX_KINDS, MAX_LAYERS = 3, 64


class ExplainOptions(Message):
    """Options of the search, as docs/options.md describes them; those left out have the model's defaults."""

    beam_size: Whole | None = None
    num_hypotheses: Whole | None = None
    length_penalty: Number | None = None
    min_target_length: Whole | None = None
    max_target_length: Whole | None = None
    coverage_penalty: Number | None = None
    repetition_penalty: Number | None = None
    no_repeat_ngram_size: Whole | None = None
    target_prefix: str | None = None
    suppressed_texts: FewTexts | None = None


class ExplainRequest(Message):
    """A request for the explanation of a sentence's translation."""

    text: str = Field(description="Text of one sentence.")
    source_language: Language | None = Field(default=None, description="Language of the text; unset: it is detected.")
    target_language: Language
    model: str | None = Field(default=None, description="Name of a model, or name/version.")
    options: ExplainOptions = Field(default_factory=ExplainOptions)
    attention_kinds: FailFastList[AttentionKind] = Field(
        default=["cross"], max_length=MAX_KINDS, description="Each at most once."
    )
    attention_layers: FailFastList[Index] = Field(default=[], max_length=MAX_LAYERS, description="From 0; none: all.")
    attention_heads: bool = Field(default=False, description="Whether each head is returned, after the mean.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="At most the gateway's own limit.")


class SourceToken(Message):
    """A token of the source."""

    piece: str = Field(description="Entry of the vocabulary, where ▁ is a space.")
    id: int
    start: int = Field(description="First character (code point) of the text that it stands for.")
    end: int = Field(description="Character after the last one; equal to start for tokens without characters.")


class Alternative(Message):
    """A token that might have been chosen."""

    piece: str
    id: int
    score: float = Field(description="Log-probability in nats.")


class TargetToken(Alternative):
    """A token of the best hypothesis."""

    text: str = Field(description="Text that it adds, spaces included.")
    source_token: int = Field(description="Index of the source token that it attends to most.")
    alternatives: list[Alternative] = Field(description="Likeliest tokens of the step, best first, at most 5.")
    forced: bool
    candidate: int = Field(description="Index of its candidate in the search step with the same index.")


class Attention(Message):
    """Attention of one layer."""

    kind: AttentionKind
    layer: int
    head: int | None = Field(description="Null for the mean of all heads.")
    weights: list[list[float]] = Field(description="weights[row][column]; each row sums to 1.")


class Candidate(Message):
    """A continuation of a hypothesis by one token."""

    parent: int | None = Field(description="Index among the candidates of the step before; null in the first step.")
    piece: str
    id: int
    score: float | None = Field(description="Summed log-probability; null for a token that options excluded.")
    fate: Fate
    reason: str | None = Field(description="Why, as docs/explaining.md lists it; null for most that were kept.")
    final_score: float | None = Field(description="Score by which finished hypotheses are ranked; null of others.")
    rank: int | None = Field(description="Rank among the hypotheses returned, from 1; null of others.")


class Step(Message):
    """One step of the search."""

    candidates: list[Candidate] = Field(description="Best first, then those that options excluded.")
    omitted_candidates: int


class ExplainResponse(Message):
    """The translation of a sentence, and how it was found."""

    text: str
    source_language: str
    model: str
    model_version: str
    hypotheses: list[Hypothesis]
    source_tokens: list[SourceToken]
    target_tokens: list[TargetToken]
    attention: list[Attention]
    search_steps: list[Step]
    omitted_steps: int
    searches: int
    no_repeat_ngram_size: int
    max_target_length: int


ALL: tuple[type[Message], ...] = (
    *(TranslateRequest, StreamRequest, DetectRequest),
    *(TranslateResponse, Part, DetectResponse, ModelsResponse, GlossariesResponse, Problem),
)
"""Requests and answers."""


def schemas(kinds: Iterable[type[Message]]) -> dict[str, Any]:
    """Return the JSON schemas of messages and their members, by name.

    Args:
        kinds: Requests and answers.
    """
    from pydantic.json_schema import models_json_schema  # noqa: PLC0415 - one call of a process asks for it

    pairs = [(kind, "validation") for kind in kinds]
    _, definitions = models_json_schema(pairs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas_by_name: dict[str, Any] = definitions["$defs"]
    return schemas_by_name
