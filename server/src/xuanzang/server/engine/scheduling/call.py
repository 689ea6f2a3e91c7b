"""One call: the value that goes down, what the scheduler knows of it, and the record that comes up."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import NO_CALLER, CallerId, DecodingOptions, FinishReason, ServedModel
from xuanzang.text.codec import TextCodec
from xuanzang.text.terminology.terms import NO_TERMS, Terms
from xuanzang.text.types import ContentFormat, PlaceholderFamily, Reading, TextKind

_KEPT_AS: Mapping[TextKind, FinishReason] = MappingProxyType(
    {TextKind.COPIED: FinishReason.COPIED, TextKind.UNSERVED: FinishReason.UNSERVED_LANGUAGE}
)
"""Why texts that are not translated are answered as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Request of a caller: checked, completed, and read by everything below."""

    texts: tuple[str, ...]
    model: ServedModel
    options: DecodingOptions
    """Options within the ranges of the API and the limits of the model."""
    source_language: str = ""
    """One of the model's source languages, or empty for its first."""
    target_language: str = ""
    """Language of the translations, which a writer may make of one of the model's; empty for its first."""
    content_format: ContentFormat = ContentFormat.TEXT
    """How the texts are written; with markup nothing is emitted before the end."""
    terms: Terms = NO_TERMS
    """What translations keep."""
    placeholders: frozenset[PlaceholderFamily] = frozenset()
    """Families of placeholders that are carried through the translation."""
    readings: tuple[Reading, ...] = ()
    """How the texts are read, if the caller names no source language; else empty."""
    return_scores: bool = False
    return_provenance: bool = False

    @property
    def kept_texts(self) -> dict[int, FinishReason]:
        """Which texts are answered as they are, by their index, and why."""
        return {index: _KEPT_AS[each.kind] for index, each in enumerate(self.readings) if each.kind in _KEPT_AS}

    @property
    def forced_tokens(self) -> int:
        """Target tokens, about, that the options force for each sentence, however short it is."""
        options = self.options
        searches = options.num_hypotheses if options.sampling or options.return_alternatives else 1
        return searches * max(options.min_target_length, len(options.target_prefix))


class FlowKey(NamedTuple):
    """Whose sentences wait in one line: a caller's, with one line more for each model that has limits of its own."""

    caller: CallerId
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
    """True if the best hypothesis is of a search that required the terms."""
    is_kept: bool = False
    """True if nothing was searched, because the answer was kept or another call was waiting for it."""
    from_lexicon: bool = False
    """True if the translation is the lexicon's."""
    max_target_length: int = 0
    """Maximum target tokens that were in effect, eos counted."""
    source_with_terms: str = ""
    """The sentence as the model read it, if translations were put in the place of terms."""


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
    """Record of one call. Belongs to the event loop until the call has ended.

    All times are on the clock of `time.monotonic`. It holds no text of the caller but `source_with_terms` of found
    sentences, which are there only for provenance.
    """

    exemplar: dict[str, str] | None = None
    """Labels of the exemplars of histograms, such as the trace's id; None for no exemplars."""
    model: str = ""
    """Model; empty until the call begins. It and all that follow are filled in by the engine."""
    version: int = 0
    texts: int = 0
    characters: int = 0
    began_at: float = 0.0
    tokenized_at: float | None = None
    """Time at which its texts were split and tokenised; None before that."""
    ended_at: float = 0.0
    sentences: int = 0
    constrained_sentences: int = 0
    """Sentences with terms."""
    source_tokens: int = 0
    """Source tokens, end tokens counted."""
    target_tokens: int | None = None
    """Target tokens of the best hypotheses, end tokens counted; None of a call that is not answered."""
    started: bool = False
    """True if a worker has taken a sentence."""
    searches: list[SearchRecord] = field(default_factory=list)
    found: list[tuple[int, int, SentenceTimeline]] = field(default_factory=list)
    """Text, sentence of the text, and timeline of each search, if the call asks for its provenance."""

    def begin(self, model: str, version: int, texts: Sequence[str]) -> None:
        """Take down what is to be translated, and when that begins."""
        self.model, self.version = model, version
        self.texts, self.characters = len(texts), sum(map(len, texts))
        self.began_at = time.monotonic()

    def of_text(self, text_index: int) -> list[tuple[int, SentenceTimeline]]:
        """Return the sentences and timelines of the searches of one text, in the order of its sentences."""
        of_text = [(sentence, timeline) for text, sentence, timeline in self.found if text == text_index]
        return sorted(of_text, key=lambda each: each[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """For whom sentences are searched, by which model and until when: what the scheduler knows of a call."""

    model: LoadedModel
    caller: CallerId = NO_CALLER
    """Identity of the caller: callers take turns."""
    source_language: str = ""
    """Language that the model reads, or empty for its first."""
    target_language: str = ""
    """Language that the model writes, or empty for its first."""
    deadline: float = math.inf
    """On the clock of `time.monotonic`."""
    cutoff: float = math.inf
    """Time at which the best found so far is the answer, on the same clock."""
    flow: FlowKey = field(init=False)
    """Line in which the sentences wait."""
    useful_until: float = field(init=False)
    """Time after which sentences need not be begun, on the same clock."""
    accepts_part: bool = field(init=False)
    """True if translations that time has cut short are of use, too."""

    def __post_init__(self) -> None:
        """Derive what admission asks for again and again."""
        limits = self.model.limits
        limited = self.model if limits.workers or limits.memory_bytes else None
        object.__setattr__(self, "flow", FlowKey(self.caller, limited))
        object.__setattr__(self, "useful_until", min(self.deadline, self.cutoff))
        object.__setattr__(self, "accepts_part", not math.isinf(self.cutoff))

    @property
    def codec(self) -> TextCodec:
        """Codec between the languages."""
        return self.model.codec_between(self.source_language, self.target_language)
