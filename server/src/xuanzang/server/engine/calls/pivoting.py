"""Calls of two models: the first writes the sentences that the second reads.

The texts are split, and their tags and placeholders carried, once, at the beginning; what the second model writes for
each sentence is put into the texts at the end. The places of its words in the source are those of the words that it
attends to, through the places of these in turn. Entries of glossaries are of the whole pair: the first model translates
their terms freely, the alignment says where, and there the second reads and writes the wanted translations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from xuanzang.server.engine.calls.call import SHORT_CHARACTERS, Emit, RunningCall, SharedResources
from xuanzang.server.engine.calls.jobs import SentenceListener
from xuanzang.server.engine.calls.preparation import Onward, Preparation, PreparedTexts
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceOrigin, SentenceResult
from xuanzang.server.engine.calls.results import joined
from xuanzang.server.engine.errors import InvalidInputError
from xuanzang.server.engine.quality import with_flags
from xuanzang.server.engine.scheduling.decide import Asked
from xuanzang.server.engine.scheduling.request import CallContext
from xuanzang.server.engine.types import FinishReason, Hypothesis, Quality
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.alignment import Alignment, Stretch, aligned_words
from xuanzang.text.markup.document import Inline
from xuanzang.text.markup.placement import placed
from xuanzang.text.offsets import Span
from xuanzang.text.terminology.target_terms import match_of
from xuanzang.text.terminology.terms import FoundTerm, Terms
from xuanzang.text.traditional import TraditionalWriter
from xuanzang.text.types import GlossaryMatch, TokenDetail


class FirstOfTwo(RunningCall):
    """The call of the first model, whose translations are kept by sentence."""

    def __init__(
        self, shared: SharedResources, call: Call, context: CallContext, record: CallRecord, *, onward: Onward
    ) -> None:
        super().__init__(shared, call, context, record)
        self._onward = onward
        self.prepared = PreparedTexts()
        """The texts of the call."""
        self.translated: list[Hypothesis] = []
        """The best translation of each sentence."""

    @override
    def _prepared(self) -> PreparedTexts:
        options = self._onward.options
        return self._split(carries=not (options.token_details or options.target_prefix), onward=self._onward)

    @override
    async def _search(self, prepared: PreparedTexts) -> Sequence[Sequence[Hypothesis]]:
        # Once the first model has done its part, the second is not refused: both are asked for now.
        asked = Asked(self._context.flow, 2 * prepared.cost)
        self._shared.scheduler.require_admission(asked, useful_until=self._context.useful_until)
        return await super()._search(prepared)

    @override
    def _joined(self, prepared: PreparedTexts, translated: Iterator[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        self.prepared, self.translated = prepared, [best for best, *_ in translated]
        return [[each] for each in self.translated]

    @override
    def _with_reasons(self, answer: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        return answer


class SecondOfTwo(RunningCall):
    """The call of the second model, which reads the translations of the first."""

    def __init__(
        self,
        shared: SharedResources,
        call: Call,
        context: CallContext,
        record: CallRecord,
        *,
        source_language: str,
        writer: TraditionalWriter | None = None,
        emit: Emit | None = None,
    ) -> None:
        """Make a call that has not begun; `source_language` is that of its texts, which the first model reads.

        Raises:
            InvalidInputError: Options do not fit the model.
        """
        super().__init__(shared, call, context, record, writer=writer, emit=emit)
        self._languages = replace(context, source_language=source_language)
        plain = replace(call, terms=Terms(fields=call.terms.fields), placeholders=frozenset())
        self._sentences = Preparation(
            plain, context.model, self._codec, self._options, writer, shared.settings, carries=False
        )
        if self._sentences.violations:
            raise InvalidInputError(self._sentences.violations)
        self._first: FirstOfTwo | None = None
        self._middles: list[_Middle] = []

    def first(self, call: Call, context: CallContext, record: CallRecord) -> FirstOfTwo:
        """Make the call of the first model, whose translations this one reads once it is done."""
        onward = Onward(self._codec, self._options)
        self._first = FirstOfTwo(self._shared, call, context, record, onward=onward)
        return self._first

    @override
    def _is_short(self) -> bool:
        # Nothing is refused: the first call was admitted for both.
        return sum(map(len, self._call.texts)) <= SHORT_CHARACTERS

    @override
    def _prepared(self) -> PreparedTexts:
        """Plan the searches for the sentences that the first model wrote."""
        first = self._first
        if first is None:
            raise ValueError("the first call is not done")
        prepared, of_first = self._sentences.prepared, first.prepared
        translated = iter(zip(of_first.searches, first.translated, strict=True))
        for index, (segments, document) in enumerate(zip(of_first.texts, of_first.documents, strict=True)):
            of_text: list[Segment] = []
            for segment in segments:
                if not segment.source_ids:
                    of_text.append(segment)
                    continue
                search, hypothesis = next(translated)
                middle = _middle(search, hypothesis)
                middle.segments += self._sentences.add_sentence(
                    f"contents[{index}]", hypothesis.text, middle.terms, token_details=document is not None
                )
                of_text += middle.segments
                self._middles.append(middle)
            prepared.texts.append(of_text)
            prepared.documents.append(document)
        if len(prepared.searches) != len(self._middles):
            # A sentence that was cut is emitted once it is whole, at the end.
            self._emit = None
        return prepared

    @override
    async def _decode(
        self,
        searches: Sequence[PlannedSearch],
        listener: SentenceListener | None = None,
        *,
        context: CallContext | None = None,
        follows: bool = True,
    ) -> list[SentenceResult]:
        return await super()._decode(searches, listener, context=context, follows=True)

    @override
    def _joined(self, prepared: PreparedTexts, translated: Iterator[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        whole = [middle.continued(translated, self._codec) for middle in self._middles]
        of_first = self._first.prepared if self._first else prepared
        return super()._joined(of_first, iter(whole))


@dataclass(slots=True, kw_only=True)
class _Middle:
    """A sentence that the first model wrote and the second reads."""

    origin: SentenceOrigin
    hypothesis: Hypothesis
    """The translation of the first model, with places in the source."""
    terms: list[FoundTerm]
    """Terms with places in the translation."""
    sources: dict[Span, FoundTerm]
    """By these places: the terms of the source."""
    lost: list[GlossaryMatch]
    """Terms that have no place in the translation."""
    segments: list[Segment]
    """Parts that the second model translates: one, or several of a sentence that it does not take whole."""

    def continued(self, translated: Iterator[Sequence[Hypothesis]], codec: TextCodec) -> list[Hypothesis]:
        """Take the second model's hypotheses of the sentence from `translated`; return them with places in the source.

        A sentence without anything to translate is the first model's.
        """
        if not any(segment.source_ids for segment in self.segments):
            missed = [match_of(term) for term in self.sources.values()]
            return [replace(self.hypothesis, matches=_in_order([*self.lost, *missed]))]
        return [self._of_source(each) for each in joined(self.segments, translated, codec)]

    def _of_source(self, found: Hypothesis) -> Hypothesis:
        """Return a hypothesis of the second model as one of the source."""
        first = self.hypothesis
        is_whole = found.finish_reason is FinishReason.END_OF_SENTENCE
        return replace(
            found,
            finish_reason=first.finish_reason if is_whole else found.finish_reason,
            tokens=tuple(map(self._token, found.tokens)),
            matches=_in_order([*self.lost, *map(self._match, found.matches)]),
            quality=_product(first.quality, found.quality),
        )

    def _token(self, token: TokenDetail) -> TokenDetail:
        """Return a token with the place of the word that its own word comes from, or the end of the sentence."""
        start = source_end = self.origin.start + len(self.origin.text)
        most = end = 0
        for each in self.hypothesis.tokens:
            first, end = end, end + len(each.text)
            shared = min(end, token.source_end) - max(first, token.source_start)
            if shared > most and each.source_start < each.source_end:
                most, start, source_end = shared, each.source_start, each.source_end
        return replace(token, source_start=start, source_end=source_end)

    def _match(self, match: GlossaryMatch) -> GlossaryMatch:
        term = self.sources[match.source_start, match.source_end]
        return replace(match, source=term.source, source_start=term.start, source_end=term.end, pattern=term.pattern)


def _middle(search: PlannedSearch, hypothesis: Hypothesis) -> _Middle:
    """Find the places of a sentence's terms in its translation."""
    if (origin := search.origin) is None:
        raise ValueError("the first call did not keep the sentence")
    required = {
        (term.start, term.end): term for term, _ in (search.renderer.terms.found if search.renderer.terms else ())
    }
    terms, sources, lost = list[FoundTerm](), dict[Span, FoundTerm](), list[GlossaryMatch]()

    def keep(term: FoundTerm, start: int, end: int, targets: tuple[str, ...]) -> None:
        terms.append(replace(term, start=start, end=end, source=hypothesis.text[start:end], targets=targets))
        sources[start, end] = term

    for match in hypothesis.matches:
        if match.target:
            term = required[match.source_start, match.source_end]
            keep(term, match.target_start, match.target_start + len(match.target), (match.target,))
        else:
            lost.append(match)
    places = _places(origin, hypothesis, list(sources)) if origin.terms else {}
    for number, term in enumerate(origin.terms):
        if number in places:
            keep(term, *places[number], term.targets)
        else:
            lost.append(match_of(term))
    terms.sort(key=lambda term: term.start)
    return _Middle(origin=origin, hypothesis=hypothesis, terms=terms, sources=sources, lost=lost, segments=[])


def _places(origin: SentenceOrigin, hypothesis: Hypothesis, taken: Sequence[Span]) -> dict[int, Span]:
    """Find the translations of terms that the first model was not asked to keep, by the alignment, as those of tags."""
    text, translation, offset = origin.text, hypothesis.text, origin.start
    tokens = (
        replace(token, source_start=token.source_start - offset, source_end=token.source_end - offset)
        for token in hypothesis.tokens
    )
    words = aligned_words(tokens, translation, 0, source=text, sentence=(0, len(text)), verbatim=())
    stretch = Stretch(source_start=0, source_end=len(text), start=0, end=len(translation), words=words)
    inlines = [
        Inline(start=term.start - offset, end=term.end - offset, opening=str(number))
        for number, term in enumerate(origin.terms)
    ]
    found = placed(inlines, Alignment(text, translation, [stretch]), (0, len(translation)))
    return {
        int(each.inline.opening): (each.start, each.end)
        for each in found
        if translation[each.start : each.end].strip()
        and not any(start < each.end and each.start < end for start, end in taken)
    }


def _in_order(matches: Sequence[GlossaryMatch]) -> tuple[GlossaryMatch, ...]:
    return tuple(sorted(matches, key=lambda match: match.source_start))


def _product(first: Quality | None, second: Quality | None) -> Quality | None:
    """Return the quality of a sentence that two models have translated."""
    if first is None or second is None:
        return second
    quality = with_flags(second, first.flags)
    if first.acceptable_probability is None or quality.acceptable_probability is None:
        return quality
    return replace(quality, acceptable_probability=first.acceptable_probability * quality.acceptable_probability)
