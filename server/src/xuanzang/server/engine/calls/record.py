"""One call: the value that goes down, and the record that comes up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.engine.types import DecodingOptions, FinishReason, ServedModel
from xuanzang.text.terminology.terms import NO_TERMS, Terms
from xuanzang.text.types import ContentFormat, PlaceholderFamily, Reading, TextKind

_KEPT_AS: Mapping[TextKind, FinishReason] = MappingProxyType(
    {TextKind.COPIED: FinishReason.COPIED, TextKind.UNSERVED: FinishReason.UNSERVED_LANGUAGE}
)
"""Reasons for answering texts unchanged."""


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
    """Format of the texts; with markup nothing is emitted before the end."""
    terms: Terms = NO_TERMS
    """Terms that translations keep."""
    placeholders: frozenset[PlaceholderFamily] = frozenset()
    """Families of placeholders that are carried through the translation."""
    readings: tuple[Reading, ...] = ()
    """Detected languages of the texts, if the caller names no source language; else empty."""
    return_scores: bool = False
    return_provenance: bool = False
    first: Call | None = None
    """Call of the first of two models, whose translations this one's model reads; None for one model."""

    @property
    def kept_texts(self) -> dict[int, FinishReason]:
        """Reasons for answering texts unchanged, by their index."""
        return {index: _KEPT_AS[each.kind] for index, each in enumerate(self.readings) if each.kind in _KEPT_AS}

    @property
    def forced_tokens(self) -> int:
        """Target tokens, about, that the options force for each sentence, however short it is."""
        options = self.options
        searches = options.num_hypotheses if options.sampling or options.return_alternatives else 1
        return searches * max(options.min_target_length, len(options.target_prefix))


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
        """Time when the last sentence left the queue, or when the call ended before."""
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
    hold_sentences: Callable[[int], AbstractContextManager[None]] | None = None
    """Admits a number of sentences, or refuses them, and holds places while they are searched; None for no limit."""
    model: str = ""
    """Model; empty until the call begins. It and the following fields are filled in by the engine."""
    version: int = 0
    texts: int = 0
    characters: int = 0
    began_at: float = 0.0
    tokenized_at: float | None = None
    """Time when its texts were split and tokenised; None before that."""
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
    first: CallRecord | None = None
    """Record of the first of two models; None for one model."""

    def begin(self, model: str, version: int, texts: Sequence[str]) -> None:
        """Record the work and its start."""
        self.model, self.version = model, version
        self.texts, self.characters = len(texts), sum(map(len, texts))
        self.began_at = time.monotonic()

    def of_text(self, text_index: int) -> list[tuple[int, SentenceTimeline]]:
        """Return the sentences and timelines of the searches of one text, in the order of its sentences."""
        of_text = [(sentence, timeline) for text, sentence, timeline in self.found if text == text_index]
        return sorted(of_text, key=lambda each: each[0])
