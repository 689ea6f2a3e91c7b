"""One call: what is asked, by whom and until when; and what is recorded of it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Required, TypedDict

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.settings import UNLIMITED
from xuanzang.server.engine.terminology.terms import NO_TERMS, Terms
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.text.traditional import TraditionalWriter
from xuanzang.server.engine.types import ContentFormat, DecodingOptions, FinishReason, HoldSentences, ServedModel


class FlowKey(NamedTuple):
    """Whose sentences wait in one line: a caller's, with one line more for each model that has limits of its own."""

    caller: str
    limited: LoadedModel | None = None
    """Model with limits of its own; None for all others together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTimeline:
    """Times at which a sentence was worked on, and the size of its batches. Times are those of `time.monotonic`."""

    queued_at: float
    taken_at: float
    """Time at which a worker had taken it from the queue and began to encode it."""
    encoded_at: float
    """Time at which it had joined the batch: encoded, with all that joined at the same step."""
    finished_at: float
    """Time at which it left the batch."""
    worker: int
    """Number of the worker, from 0."""
    batch_size: int
    """Sentences of the model that the worker decoded when it had joined, itself counted."""
    steps: int
    """Decoder steps until it left the batch, those of earlier searches counted."""
    searches: int = 1
    """Searches made: more than 1 if one found a repetition or left out a term."""
    terms_required: bool = False
    """Whether the best hypothesis is of a search that required the terms."""
    is_kept: bool = False
    """Whether nothing was searched, because the answer was kept or another call was waiting for it."""


class SearchRecord(NamedTuple):
    """Sentences of a call that were submitted together. Times are on the clock of `time.monotonic`."""

    submitted_at: float
    ended_at: float
    sentences: int
    """Sentences that were submitted."""
    timelines: Sequence[SentenceTimeline]
    """Those of the sentences that were translated, in the order of the text."""

    @property
    def queue_ended_at(self) -> float:
        """Time at which the last sentence was taken from the queue, or at which the call ended without that."""
        if len(self.timelines) < self.sentences:
            return self.ended_at
        return max(timeline.taken_at for timeline in self.timelines)


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """What one call took so far. Belongs to the event loop."""

    model: str
    version: int
    texts: int
    characters: int
    began_at: float = field(default_factory=time.monotonic)
    tokenized_at: float | None = None
    """Time at which its texts were split and tokenised; None before that."""
    ended_at: float = 0.0
    sentences: int = 0
    source_tokens: int = 0
    """Source tokens, end tokens counted."""
    target_tokens: int = 0
    """Target tokens of the best hypotheses, end tokens counted; 0 of a call that is not answered."""
    searches: list[SearchRecord] = field(default_factory=list)


class CallObserver(Protocol):
    """Asks for the records of calls."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Labels of the exemplars of histograms, such as the trace's id; None for no exemplars."""

    def call_ended(self, record: CallRecord) -> None:
        """Take the record of a call that has ended, answered or not."""


class ContextArguments(TypedDict, total=False):
    """What a call may say of itself; `CallContext` has the meaning of each key, and what it is without."""

    caller: str
    source_language: str
    target_language: str
    content_format: ContentFormat
    terms: Terms
    kept_texts: Mapping[int, FinishReason]
    writer: TraditionalWriter | None
    hold_sentences: HoldSentences
    observer: CallObserver | None


class CallArguments(ContextArguments):
    """What a call asks of the engine."""

    model: Required[ServedModel]
    """One of the engine's."""
    options: Required[DecodingOptions]
    """Options within the ranges of the API and the limits of the model."""
    deadline: Required[float | None]
    """Deadline on the clock of `time.monotonic`; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What all sentences of one call have in common."""

    model: LoadedModel
    caller: str = ""
    """Identity of the caller, neither logged nor counted: callers take turns."""
    source_language: str = ""
    """One of the model's, or empty for its first."""
    target_language: str = ""
    """The same."""
    deadline: float = math.inf
    """On the clock of `time.monotonic`."""
    cutoff: float = math.inf
    """Time at which the best found so far is the answer, on the same clock."""
    content_format: ContentFormat = ContentFormat.TEXT
    """How the texts are written; with markup nothing is emitted before the end."""
    terms: Terms = NO_TERMS
    """What translations keep."""
    kept_texts: Mapping[int, FinishReason] = field(default_factory=dict)
    """Texts that are answered as they are, by their index, and why."""
    writer: TraditionalWriter | None = None
    """Writer of what the model writes; None to leave it as it is."""
    hold_sentences: HoldSentences = nullcontext
    """Places of the caller for sentences in translation."""
    is_counted: bool = True
    """Whether it is a request of a caller, which metrics of requests count."""
    observer: CallObserver | None = None
    """Who asks for the record of the call; None for no record."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Labels of the exemplars of histograms; None for no exemplars."""
        return None if self.observer is None else self.observer.exemplar

    @property
    def useful_until(self) -> float:
        """Time after which sentences need not be begun, on the clock of `time.monotonic`."""
        return min(self.deadline, self.cutoff)

    @property
    def accepts_part(self) -> bool:
        """Whether translations that time has cut short are of use, too."""
        return not math.isinf(self.cutoff)

    @property
    def flow(self) -> FlowKey:
        """Line in which the sentences wait."""
        return FlowKey(self.caller, None if self.model.limits == UNLIMITED else self.model)

    @property
    def codec(self) -> TextCodec:
        """Codec between the languages."""
        return self.model.codec_between(self.source_language, self.target_language)
