"""Texts of a call split, tokenised and checked against the limits. Runs in a thread if they are long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from xuanzang.server.engine.calls.documents import SplitDocument, split_document
from xuanzang.server.engine.calls.kept_terms import NO_SENTENCE_TERMS, SentenceTerms, plan_terms
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.markup.tokens import MarkupError
from xuanzang.server.engine.models.loaded import UNCONSTRAINED, LoadedModel, TargetConstraints
from xuanzang.server.engine.quality import SentenceAssessor
from xuanzang.server.engine.scheduling.call import CallContext
from xuanzang.server.engine.scheduling.load import predicted_cost
from xuanzang.server.engine.scheduling.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.request import PlannedSearch
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.terminology.terms import FoundTerm
from xuanzang.server.engine.text.codec import Segment
from xuanzang.server.engine.text.offsets import Span
from xuanzang.server.engine.text.traditional import TraditionalWriter
from xuanzang.server.engine.types import ContentFormat, DecodingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTexts:
    """The texts of a call, ready to be searched."""

    texts: list[list[Segment]]
    """Segments of each text."""
    searches: list[PlannedSearch]
    """One for each segment with source ids."""
    documents: list[SplitDocument | None]
    """The texts as they were parsed, None for those that are kept; none of texts without markup."""
    source_tokens: int
    """Source tokens of all sentences, end tokens included."""


class _Sentences(NamedTuple):
    """A text, or a block of one with markup."""

    segments: Sequence[Segment]
    verbatim: Sequence[Span] = ()
    """Places of what is not translated."""


def prepare(
    texts: Sequence[str],
    *,
    context: CallContext,
    options: DecodingOptions,
    settings: EngineSettings,
) -> PreparedTexts:
    """Split and tokenise the texts of a call.

    Raises:
        InvalidInputError: Texts or options are over a limit; the error names all of them.
    """
    preparation = _Preparation(context, options, settings)
    for index, text in enumerate(texts):
        preparation.add(f"contents[{index}]", text, is_kept=index in context.kept_texts)
        if preparation.is_too_costly:
            break
    return preparation.result()


class _Preparation:
    """Texts of a call as they are prepared one after another, and all that is wrong with them."""

    def __init__(self, context: CallContext, options: DecodingOptions, settings: EngineSettings) -> None:
        self._context = context
        self._codec = context.codec
        self._options = _simplified(options, context.writer)
        self._written = {self._options.target_prefix: options.target_prefix}
        self._max_characters = settings.max_content_characters
        self._max_cost = settings.max_queue_tokens // 2
        self._constraints, self._violations = _target_constraints(context.model, self._options)
        self._violations += _term_violations(context)
        self._cost = 0
        self._source_tokens = 0
        self._texts: list[list[Segment]] = []
        self._searches: list[PlannedSearch] = []
        self._documents: list[SplitDocument | None] = []

    @property
    def is_too_costly(self) -> bool:
        """Whether the call could never be accepted, so that the rest is not worth tokenising."""
        return self._cost > self._max_cost

    def result(self) -> PreparedTexts:
        """Return the texts, unless anything is wrong with them."""
        if self._violations:
            raise InvalidInputError(self._violations)
        return PreparedTexts(
            texts=self._texts, searches=self._searches, documents=self._documents, source_tokens=self._source_tokens
        )

    def add(self, field: str, text: str, *, is_kept: bool = False) -> None:
        """Prepare a text, or keep it as it is; after a fault only check it, so that the error names all faults."""
        try:
            blocks = self._kept(field, text) if is_kept else self._checked_blocks(field, text)
            if self._violations:
                return
            searches: list[PlannedSearch] = []
            for block in blocks:
                searches += self._planned(block)
        except InvalidInputError as error:
            self._violations += error.violations
            return
        self._texts.append([segment for block in blocks for segment in block.segments])
        self._searches += searches
        self._count(field, searches)

    def _count(self, field: str, searches: Iterable[PlannedSearch]) -> None:
        """Count what the searches of a text take."""
        each = _searches_per_sentence(self._options)
        for sentence, _ in searches:
            self._source_tokens += len(sentence.source_ids)
            self._cost += each * predicted_cost(sentence)
        if self.is_too_costly:
            self._violations.append(_too_costly(field, self._cost, self._max_cost))

    def _checked_blocks(self, field: str, text: str) -> Sequence[_Sentences]:
        """Split a text that is not too long, and check what it is split into."""
        self._require_short(field, text)
        try:
            blocks = self._blocks(text)
        except MarkupError as error:
            raise InvalidInputError([FieldViolation(field=field, description=str(error))]) from error
        sentences = [each for block in blocks for each in block.segments if each.source_ids]
        if violations := [*self._length_violations(field, sentences)]:
            raise InvalidInputError(violations)
        return blocks

    def _require_short(self, field: str, text: str) -> None:
        if len(text) > self._max_characters:
            raise InvalidInputError([_too_long(field, len(text), self._max_characters, "characters")])

    def _kept(self, field: str, text: str) -> Sequence[_Sentences]:
        """Return a text that is answered as it is."""
        self._require_short(field, text)
        if self._context.content_format is not ContentFormat.TEXT:
            self._documents.append(None)
        return [_Sentences([Segment(text=text, source_ids=())])]

    def _length_violations(self, field: str, sentences: Sequence[Segment]) -> Iterator[FieldViolation]:
        """Find what is wrong with the sentences of a text, by their source tokens."""
        if not sentences:
            return
        longest, limit = max(len(each.source_ids) for each in sentences), self._codec.max_source_length
        if longest > limit:
            unit = (
                "source tokens in a stretch without comma or white space, because options.refuse_long_sentences is set"
            )
            yield _too_long(field, longest, limit, unit)
        if self._options.min_target_length or self._options.target_prefix:
            yield from self._forced_violations(field, sentences)
        if len(sentences) < 2:
            return
        if self._options.num_hypotheses > 1:
            description = f"more than 1 only for texts of a single sentence, {field} has {len(sentences)}"
            yield FieldViolation(field="options.num_hypotheses", description=description)
        if self._options.target_prefix:
            description = f"only for texts of a single sentence, {field} has {len(sentences)}"
            yield FieldViolation(field="options.target_prefix", description=description)

    def _forced_violations(self, field: str, sentences: Sequence[Segment]) -> Iterator[FieldViolation]:
        """Find what the options force that the shortest sentence of a text does not justify, once for each option."""
        forced = {
            "options.min_target_length": self._options.min_target_length,
            "options.target_prefix": len(self._constraints.prefix_ids),
        }
        if not any(forced.values()):
            return
        shortest = min(len(each.source_ids) for each in sentences)
        limit = self._context.model.justified_tokens(shortest)
        for option, tokens in forced.items():
            if tokens > limit and not any(fault.field == option for fault in self._violations):
                description = (
                    f"must be at most {limit} target tokens, because {field} has a sentence of {shortest} source "
                    f"tokens, is {tokens}"
                )
                yield FieldViolation(field=option, description=description)

    def _blocks(self, text: str) -> Sequence[_Sentences]:
        """Split a text, or each block of one with markup."""
        context, refuse_long = self._context, self._options.refuse_long_sentences
        if context.content_format is ContentFormat.TEXT:
            unbroken = context.terms.with_marks(text) if context.terms.fields else ()
            return [_Sentences(self._codec.split(text, refuse_long=refuse_long, unbroken=unbroken))]
        document = split_document(
            text, self._codec, content_format=context.content_format, refuse_long=refuse_long, terms=context.terms
        )
        self._documents.append(document)
        return [_Sentences(*block) for block in zip(document.blocks, document.verbatim, strict=True)]

    def _planned(self, block: _Sentences) -> list[PlannedSearch]:
        """Plan a search for each sentence of a text."""
        starts = accumulate((len(segment.text) for segment in block.segments), initial=0)
        return [
            self._search(segment, start, self._terms(segment, start, block.verbatim))
            for segment, start in zip(block.segments, starts, strict=False)
            if segment.source_ids
        ]

    def _search(self, segment: Segment, start: int, terms: SentenceTerms) -> PlannedSearch:
        """Plan the search for a sentence."""
        model, options, language_ids = self._context.model, self._options, self._codec.target_prefix_ids
        constraints = terms.added_to(self._constraints) if terms.found else self._constraints
        renderer = SentenceRenderer(
            codec=self._codec,
            source_spans=terms.offsets(segment, self._codec, start) if options.token_details else (),
            source_with_terms=terms.source.text if terms.source else "",
            matches=terms.matches if terms.found else None,
            assessor=_assessor(model, segment) if options.quality else None,
            writer=self._context.writer,
            written=self._written,
            prefix=options.target_prefix,
        )
        read = terms.read_in(segment)
        return PlannedSearch(
            model.sentence(read.source_ids, options, constraints, language_ids=language_ids),
            renderer,
        )

    def _terms(self, segment: Segment, start: int, verbatim: Sequence[Span]) -> SentenceTerms:
        """Find the terms of a sentence, but not those of what is not translated."""
        context = self._context
        if not context.terms.fields:
            return NO_SENTENCE_TERMS
        found = [term for term in context.terms.find(segment.text, start) if not _overlaps(term, verbatim)]
        return plan_terms(
            [self._simplified_term(term) for term in found],
            self._codec,
            segment=segment,
            start=start,
            suppressed_texts=self._options.suppressed_texts,
            max_tokens=_max_target_length(context.model, self._options) - len(self._constraints.prefix_ids) - 1,
            in_source=context.model.reads_terms,
        )

    def _simplified_term(self, term: FoundTerm) -> FoundTerm:
        """Return a term with its translations as the model writes them, and remember how the caller does."""
        writer = self._context.writer
        if writer is None:
            return term
        targets = tuple(map(writer.simplify, term.targets))
        for target, written in zip(targets, term.targets, strict=True):
            self._written.setdefault(target, written)
        return replace(term, targets=targets)


def _simplified(options: DecodingOptions, writer: TraditionalWriter | None) -> DecodingOptions:
    """Return options with their texts as the model writes them."""
    if writer is None or not (options.target_prefix or options.suppressed_texts):
        return options
    return replace(
        options,
        target_prefix=writer.simplify(options.target_prefix),
        suppressed_texts=tuple(map(writer.simplify, options.suppressed_texts)),
    )


def _assessor(model: LoadedModel, segment: Segment) -> SentenceAssessor:
    estimator = model.quality_estimator
    if estimator is None:
        raise ValueError(f"{model.name}/{model.version} has no quality head")
    return SentenceAssessor(estimator=estimator, source=segment.text)


def _overlaps(term: FoundTerm, spans: Iterable[Span]) -> bool:
    return any(start < term.end and term.start < end for start, end in spans)


def _term_violations(context: CallContext) -> list[FieldViolation]:
    if not context.terms.fields or context.model.keeps_terms:
        return []
    model = f"{context.model.name}/{context.model.version}"
    description = f"needs inspected_rows, which the decoder of {model} lacks; export the model again"
    return [FieldViolation(field=field, description=description) for field in context.terms.fields]


def _searches_per_sentence(options: DecodingOptions) -> int:
    return options.num_hypotheses if options.return_alternatives or options.sampling else 1


def _max_target_length(model: LoadedModel, options: DecodingOptions) -> int:
    return options.max_target_length or model.bundle.manifest.dimensions.max_target_length


def _target_constraints(model: LoadedModel, options: DecodingOptions) -> tuple[TargetConstraints, list[FieldViolation]]:
    """Tokenise the texts in the options."""
    if not (options.target_prefix or options.suppressed_texts):
        # A call of the tokeniser releases the interpreter, and waits for it afterwards.
        return UNCONSTRAINED, []
    prefix_ids = tuple(model.codec.encode_target(options.target_prefix))
    suppressed = [model.codec.sequences(text) for text in options.suppressed_texts]
    violations = [
        FieldViolation(field=f"options.suppressed_texts[{index}]", description="holds nothing but white space")
        for index, (text, sequences) in enumerate(zip(options.suppressed_texts, suppressed, strict=True))
        if text.isspace() or not sequences
    ]
    limit = _max_target_length(model, options)
    if prefix_ids and len(prefix_ids) >= limit:
        description = f"must have fewer than {limit} target tokens, has {len(prefix_ids)}"
        violations.append(FieldViolation(field="options.target_prefix", description=description))
    if not model.codec.can_write(prefix_ids):
        description = "has characters that the model cannot write"
        violations.append(FieldViolation(field="options.target_prefix", description=description))
    sequences = tuple(sequence for of_text in suppressed for sequence in of_text)
    return TargetConstraints(prefix_ids=prefix_ids, suppressed_sequences=sequences), violations


def _too_long(field: str, length: int, limit: int, unit: str) -> FieldViolation:
    return FieldViolation(field=field, description=f"must have at most {limit} {unit}, has {length}")


def _too_costly(field: str, cost: int, limit: int) -> FieldViolation:
    description = (
        f"must need at most {limit} tokens together, source and expected target times beam size; {field} and those "
        f"before it need {cost}"
    )
    return FieldViolation(field="contents", description=description)
