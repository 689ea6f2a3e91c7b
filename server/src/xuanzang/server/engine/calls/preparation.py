"""Texts of a call split, tokenised and checked against the limits. Runs in a thread if they are long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from xuanzang.server.engine.calls.documents import SplitDocument, split_document
from xuanzang.server.engine.calls.kept_terms import NO_SENTENCE_TERMS, SentenceTerms, plan_terms
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.markup.tokens import MarkupError
from xuanzang.server.engine.models.loaded import UNCONSTRAINED, LoadedModel, TargetConstraints
from xuanzang.server.engine.quality.assessment import SentenceAssessor
from xuanzang.server.engine.scheduling.load import predicted_cost
from xuanzang.server.engine.scheduling.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.request import CallContext, PlannedSearch
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.text.codec import Segment
from xuanzang.server.engine.text.offsets import Span
from xuanzang.server.engine.text.terms import FoundTerm
from xuanzang.server.engine.types import ContentFormat, DecodingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTexts:
    """The texts of a call, ready to be searched."""

    texts: list[list[Segment]]
    """Segments of each text."""
    searches: list[PlannedSearch]
    """One for each segment with source ids."""
    documents: list[SplitDocument]
    """The texts as they were parsed; none of texts without markup."""

    @property
    def source_tokens(self) -> int:
        """Source tokens of all sentences, end tokens included."""
        return sum(len(search.sentence.source_ids) for search in self.searches)


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

    Args:
        texts: Texts in the source language.
        context: Context of the call.
        options: Options of the call.
        settings: Limits.

    Returns:
        Segments and searches.

    Raises:
        InvalidInputError: Texts or options are over a limit; the error names all of them.
    """
    preparation = _Preparation(context, options, settings)
    for index, text in enumerate(texts):
        preparation.add(f"contents[{index}]", text)
        if preparation.is_too_costly:
            break
    return preparation.result()


class _Preparation:
    """Texts of a call as they are prepared one after another, and all that is wrong with them."""

    def __init__(self, context: CallContext, options: DecodingOptions, settings: EngineSettings) -> None:
        self._context = context
        self._options = options
        self._max_characters = settings.max_content_characters
        self._max_cost = settings.max_queue_tokens // 2
        self._constraints, self._violations = _target_constraints(context.model, options)
        self._violations += _term_violations(context)
        self._cost = 0
        self._prepared = PreparedTexts(texts=[], searches=[], documents=[])

    @property
    def is_too_costly(self) -> bool:
        """Whether the call could never be accepted, so that the rest is not worth tokenising."""
        return self._cost > self._max_cost

    def result(self) -> PreparedTexts:
        """Return the texts, unless anything is wrong with them."""
        if self._violations:
            raise InvalidInputError(self._violations)
        return self._prepared

    def add(self, field: str, text: str) -> None:
        """Prepare a text; after a fault only check it, so that the error names all faults."""
        try:
            blocks = self._checked_blocks(field, text)
            if self._violations:
                return
            searches = [search for block in blocks for search in self._searches(block)]
        except InvalidInputError as error:
            self._violations += error.violations
            return
        self._prepared.texts.append([segment for block in blocks for segment in block.segments])
        self._prepared.searches.extend(searches)
        self._cost += _searches_per_sentence(self._options) * sum(predicted_cost(each.sentence) for each in searches)
        if self.is_too_costly:
            self._violations.append(_too_costly(field, self._cost, self._max_cost))

    def _checked_blocks(self, field: str, text: str) -> Sequence[_Sentences]:
        """Split a text that is not too long, and check what it is split into."""
        if len(text) > self._max_characters:
            raise InvalidInputError([_too_long(field, len(text), self._max_characters, "characters")])
        try:
            blocks = self._blocks(text)
        except MarkupError as error:
            raise InvalidInputError([FieldViolation(field=field, description=str(error))]) from error
        segments = [segment for block in blocks for segment in block.segments]
        violations = [
            *_segment_violations(field, segments, self._context.codec.max_source_length),
            *_sentence_violations(field, segments, self._options),
        ]
        if violations:
            raise InvalidInputError(violations)
        return blocks

    def _blocks(self, text: str) -> Sequence[_Sentences]:
        """Split a text, or each block of one with markup."""
        context, refuse_long = self._context, self._options.refuse_long_sentences
        if context.content_format is ContentFormat.TEXT:
            unbroken = context.terms.with_marks(text)
            return [_Sentences(context.codec.split(text, refuse_long=refuse_long, unbroken=unbroken))]
        document = split_document(
            text, context.codec, content_format=context.content_format, refuse_long=refuse_long, terms=context.terms
        )
        self._prepared.documents.append(document)
        return [_Sentences(*block) for block in zip(document.blocks, document.verbatim, strict=True)]

    def _searches(self, block: _Sentences) -> list[PlannedSearch]:
        """Plan a search for each sentence of a text."""
        codec, model, options = self._context.codec, self._context.model, self._options
        sentences = [segment for segment in block.segments if segment.source_ids]
        terms = self._terms(block)
        spans = codec.offsets(block.segments) if options.token_details else [()] * len(sentences)
        renderers: Iterable[SentenceRenderer] = [
            SentenceRenderer(codec=codec, source_spans=span, matches=kept.matches if kept.found else None)
            for kept, span in zip(terms, spans, strict=True)
        ]
        if options.quality:
            renderers = _assessing(renderers, sentences, model)
        planned = [
            model.sentence(
                segment.source_ids, options, kept.added_to(self._constraints), language_ids=codec.target_prefix_ids
            )
            for segment, kept in zip(sentences, terms, strict=True)
        ]
        return [PlannedSearch(*each) for each in zip(planned, renderers, strict=True)]

    def _terms(self, block: _Sentences) -> list[SentenceTerms]:
        """Find the terms of each sentence of a text, but not those of what is not translated."""
        context = self._context
        if not context.terms.fields:
            return [NO_SENTENCE_TERMS for segment in block.segments if segment.source_ids]
        limit = _max_target_length(context.model, self._options)
        starts = accumulate((len(segment.text) for segment in block.segments), initial=0)
        return [
            plan_terms(
                [term for term in context.terms.find(segment.text, start) if not _overlaps(term, block.verbatim)],
                context.codec,
                suppressed_texts=self._options.suppressed_texts,
                max_tokens=limit - len(self._constraints.prefix_ids) - 1,
            )
            for segment, start in zip(block.segments, starts, strict=False)
            if segment.source_ids
        ]


def _assessing(
    renderers: Iterable[SentenceRenderer], sentences: Iterable[Segment], model: LoadedModel
) -> list[SentenceRenderer]:
    """Return renderers that assess their hypotheses, too."""
    estimator = model.quality_estimator
    if estimator is None:
        raise ValueError(f"{model.name}/{model.version} has no quality head")
    return [
        replace(renderer, assessor=SentenceAssessor(estimator=estimator, source=segment.text))
        for renderer, segment in zip(renderers, sentences, strict=True)
    ]


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


def _segment_violations(field: str, segments: Iterable[Segment], limit: int) -> Iterable[FieldViolation]:
    longest = max((len(segment.source_ids) for segment in segments), default=0)
    if longest > limit:
        unit = "source tokens in a stretch without comma or white space, because options.refuse_long_sentences is set"
        yield _too_long(field, longest, limit, unit)


def _sentence_violations(field: str, segments: Iterable[Segment], options: DecodingOptions) -> Iterable[FieldViolation]:
    sentences = sum(1 for segment in segments if segment.source_ids)
    if sentences < 2:
        return
    if options.num_hypotheses > 1:
        description = f"more than 1 only for texts of a single sentence, {field} has {sentences}"
        yield FieldViolation(field="options.num_hypotheses", description=description)
    if options.target_prefix:
        description = f"only for texts of a single sentence, {field} has {sentences}"
        yield FieldViolation(field="options.target_prefix", description=description)
