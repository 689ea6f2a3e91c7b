"""Messages of explanations: they are checked, and described in OpenAPI, by what stands here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from xuanzang.gateway.faces.messages import Hypothesis, Language, Message, Several

Kind = Literal["cross", "encoder", "decoder"]
Fate = Literal["kept", "pruned", "finished", "unspecified"]
Index = Annotated[int, Field(ge=0)]

MAX_KINDS, MAX_LAYERS = 3, 64


class ExplainOptions(Message):
    """Options of the search, as docs/options.md describes them; those left out have the model's defaults."""

    beam_size: int | None = None
    num_hypotheses: int | None = None
    length_penalty: float | None = None
    min_target_length: int | None = None
    max_target_length: int | None = None
    coverage_penalty: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    target_prefix: str | None = None
    suppressed_texts: Several[str] | None = None


class ExplainRequest(Message):
    """A sentence whose translation is to be explained."""

    text: str = Field(description="Text of one sentence.")
    source_language: Language | None = Field(default=None, description="Language of the text; unset: it is detected.")
    target_language: Language
    model: str | None = Field(default=None, description="Name of a model, or name/version.")
    options: ExplainOptions = Field(default_factory=ExplainOptions)
    attention_kinds: Several[Kind] = Field(default=["cross"], max_length=MAX_KINDS, description="Each at most once.")
    attention_layers: Several[Index] = Field(default=[], max_length=MAX_LAYERS, description="From 0; none: all.")
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

    kind: Kind
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
