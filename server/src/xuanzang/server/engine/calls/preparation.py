"""Texts of a call split, tokenised and checked against the limits. Runs in a thread if they are long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xuanzang.server.engine.calls.kept_amounts import may_lose_amounts
from xuanzang.server.engine.calls.kept_terms import NO_SENTENCE_TERMS, SentenceTerms, plan_terms
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceOrigin, SentenceRenderer
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.models.loaded import UNCONSTRAINED, LoadedModel, TargetConstraints
from xuanzang.server.engine.quality import SentenceAssessor
from xuanzang.server.engine.scheduling.forecast import predicted_cost
from xuanzang.server.engine.scheduling.request import CallContext
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.contents import SplitDocument, split_document
from xuanzang.text.markup.document import Block, Inline
from xuanzang.text.markup.parsing import parse
from xuanzang.text.markup.tokens import MarkupError
from xuanzang.text.offsets import Span
from xuanzang.text.sentences import is_plain
from xuanzang.text.spans.blanks import has_blanks, has_odd_words
from xuanzang.text.spans.carrying import Carrier, is_no_language
from xuanzang.text.terminology.terms import FoundTerm, Terms
from xuanzang.text.traditional import TraditionalWriter
from xuanzang.text.types import ContentFormat, ProtectedPattern

MAX_REQUIRED_WORDS = 16
"""Maximum placeholders of a sentence whose words a search may require; each makes its steps longer."""


@dataclass(slots=True)
class PreparedTexts:
    """The texts of a call, ready to be searched."""

    texts: list[list[Segment]] = field(default_factory=list)
    """Segments of each text."""
    searches: list[PlannedSearch] = field(default_factory=list)
    """One for each segment with source ids."""
    documents: list[SplitDocument | None] = field(default_factory=list)
    """Each parsed text; None for kept texts, and without markup or placeholders."""
    source_tokens: int = 0
    """Source tokens of all sentences, end tokens included."""
    cost: int = 0
    """Predicted tokens of all searches that will be made of them."""


class _Sentences(NamedTuple):
    """A text, or a block of one with markup."""

    segments: Sequence[Segment]
    verbatim: Sequence[Span] = ()
    """Places of untranslated parts."""
    words: Sequence[Inline] = ()
    """Placeholders that words stand in for."""
    terms: Sequence[FoundTerm] = ()
    """Terms that are found already, as in the sentences of a first model."""


class Onward(NamedTuple):
    """The second model of a call, which reads the translations of the first."""

    codec: TextCodec
    options: DecodingOptions
    """Options of the caller, which are the second model's."""


def prepare(
    call: Call,
    context: CallContext,
    options: DecodingOptions,
    *,
    codec: TextCodec,
    writer: TraditionalWriter | None,
    settings: EngineSettings,
    carries: bool = True,
    onward: Onward | None = None,
) -> PreparedTexts:
    """Split and tokenise the texts of a call; `writer` converts the model's output, None leaves it unchanged.

    `carries`: whether white space and invisible characters are carried, too. `onward`: the second model of the call,
    which keeps the entries of glossaries.

    Raises:
        InvalidInputError: Texts or options are over a limit; the error names all of them.
    """
    preparation = Preparation(call, context.model, codec, options, writer, settings, carries=carries, onward=onward)
    prepared, violations = preparation.prepared, preparation.violations
    kept = call.kept_texts if call.readings else ()
    max_cost = settings.max_queue_tokens // 2
    for index, text in enumerate(call.texts):
        place = f"contents[{index}]"
        preparation.add(place, text, is_kept=index in kept)
        if prepared.cost > max_cost and not violations:
            # It could never be accepted, so the rest is not worth tokenising.
            violations.append(_too_costly(place, prepared.cost, max_cost))
            break
    if violations:
        raise InvalidInputError(violations)
    return prepared


def has_plain_faults(call: Call, model: LoadedModel, options: DecodingOptions, settings: EngineSettings) -> bool:
    """Return whether `prepare` would refuse a call for faults that are seen before its texts are tokenised."""
    if max(map(len, call.texts), default=0) > settings.max_content_characters:
        return True
    if call.terms.fields and not model.keeps_terms:
        return True
    return bool((options.target_prefix or options.suppressed_texts) and _target_constraints(model, options)[1])


class Preparation:
    """Texts of a call under preparation, and all their faults."""

    def __init__(
        self,
        call: Call,
        model: LoadedModel,
        codec: TextCodec,
        options: DecodingOptions,
        writer: TraditionalWriter | None,
        settings: EngineSettings,
        *,
        carries: bool,
        onward: Onward | None = None,
    ) -> None:
        self._onward = onward
        self._terms_wanted, self._format = call.terms, call.content_format
        self._families, self._carries = call.placeholders, carries or bool(call.placeholders)
        self._model, self._codec, self._writer = model, codec, writer
        self._options = options if writer is None else _simplified(options, writer)
        self._written = {self._options.target_prefix: options.target_prefix}
        self._max_characters = settings.max_content_characters
        self._constraints, self.violations = UNCONSTRAINED, list[FieldViolation]()
        # A call of the tokeniser releases the interpreter, and waits for it afterwards.
        if self._options.target_prefix or self._options.suppressed_texts:
            self._constraints, self.violations = _target_constraints(self._model, self._options)
        if call.terms.fields and not self._model.keeps_terms:
            self.violations += _term_violations(self._model, call.terms)
        self._searches_per_sentence = options.num_hypotheses if options.return_alternatives or options.sampling else 1
        self.prepared = PreparedTexts()
        """The texts until now; not all if anything is wrong with them."""

    def add(self, field: str, text: str, *, is_kept: bool = False) -> None:
        """Prepare a text, or keep it unchanged; after a fault only check it, so that the error names all faults."""
        prepared = self.prepared
        try:
            if len(text) > self._max_characters:
                self.violations.append(_too_long(field, len(text), self._max_characters, "characters"))
                return
            if is_kept:
                blocks, document = [_Sentences([Segment(text=text, source_ids=())])], None
            else:
                blocks, document = self._blocks(field, text)
            self._require_fitting(field, blocks)
            if self.violations:
                return
            of_text: list[Segment] = []
            options = self._options
            if document and not options.token_details:
                # Elements find their places by the alignment of tokens.
                options = replace(options, token_details=True)
            for block in blocks:
                of_text += block.segments
                self._plan(block, options)
        except InvalidInputError as error:
            self.violations += error.violations
            return
        prepared.documents.append(document)
        prepared.texts.append(of_text)

    def add_sentence(self, field: str, text: str, terms: Sequence[FoundTerm], *, token_details: bool) -> list[Segment]:
        """Prepare the sentence of a first model, whole if this one takes that; return its segments.

        `token_details`: whether elements find their places by the alignment of tokens.

        Raises:
            InvalidInputError: An option does not fit the sentence.
        """
        block = _Sentences(self._codec.split(text, unbroken=[(0, len(text))]), terms=terms)
        self._require_fitting(field, [block])
        options = self._options
        self._plan(block, replace(options, token_details=True) if token_details else options)
        return list(block.segments)

    def _plan(self, block: _Sentences, options: DecodingOptions) -> None:
        """Plan the searches for the sentences of a block."""
        prepared, start = self.prepared, 0
        for segment in block.segments:
            if segment.source_ids:
                search = self._search(segment, start, block, options)
                prepared.searches.append(search)
                prepared.source_tokens += len(search.sentence.source_ids)
                prepared.cost += self._searches_per_sentence * predicted_cost(search.sentence)
            start += len(segment.text)

    def _require_fitting(self, field: str, blocks: Iterable[_Sentences]) -> None:
        """Raise InvalidInputError for faults of a text's sentences, by their source tokens."""
        lengths = [len(each.source_ids) for block in blocks for each in block.segments if each.source_ids]
        if not lengths:
            return
        options, violations = self._onward.options if self._onward else self._options, []
        longest, limit = max(lengths), self._codec.max_source_length
        if longest > limit:
            unit = (
                "source tokens in a stretch without comma or white space, because options.refuse_long_sentences is set"
            )
            violations.append(_too_long(field, longest, limit, unit))
        # One token is justified by any sentence.
        if not self._onward and (options.min_target_length > 1 or options.target_prefix):
            violations += self._forced_violations(field, min(lengths))
        if len(lengths) > 1:
            description = f"only for texts of a single sentence, {field} has {len(lengths)}"
            if options.num_hypotheses > 1:
                violations.append(
                    FieldViolation(field="options.num_hypotheses", description=f"more than 1 {description}")
                )
            if options.target_prefix:
                violations.append(FieldViolation(field="options.target_prefix", description=description))
        if violations:
            raise InvalidInputError(violations)

    def _forced_violations(self, field: str, shortest: int) -> Iterator[FieldViolation]:
        """Find what the options force that the shortest sentence of a text does not justify, once for each option."""
        forced = {
            "options.min_target_length": self._options.min_target_length,
            "options.target_prefix": len(self._constraints.prefix_ids),
        }
        limit = self._model.justified_tokens(shortest)
        for option, tokens in forced.items():
            if tokens > limit and not any(fault.field == option for fault in self.violations):
                description = (
                    f"must be at most {limit} target tokens, because {field} has a sentence of {shortest} source "
                    f"tokens, is {tokens}"
                )
                yield FieldViolation(field=option, description=description)

    def _blocks(self, field: str, text: str) -> tuple[list[_Sentences], SplitDocument | None]:
        """Split a text, or each block of one with markup or placeholders."""
        terms, refuse_long = self._terms_wanted, self._options.refuse_long_sentences
        parts: Sequence[str | Block] | None = None
        if self._format is not ContentFormat.TEXT or self._families or not is_plain(text) or self._has_unknown(text):
            if self._format is ContentFormat.TEXT and is_no_language(text):
                return [_Sentences([Segment(text=text, source_ids=())])], None
            try:
                parts = self._parts(text)
            except MarkupError as error:
                raise InvalidInputError([FieldViolation(field=field, description=str(error))]) from error
        if parts is None:
            unbroken = terms.with_marks(text) if terms.fields else ()
            return [_Sentences(self._codec.split(text, refuse_long=refuse_long, unbroken=unbroken))], None
        document = split_document(text, parts, self._codec, refuse_long=refuse_long, terms=terms)
        blocks = [_Sentences(each.segments, each.verbatim, each.placeholders) for each in document.blocks]
        return blocks, document

    def _parts(self, text: str) -> Sequence[str | Block] | None:
        """Cut a text into blocks; None if it has neither markup nor anything that is carried."""
        if self._format is ContentFormat.TEXT:
            is_carried = self._families or has_blanks(text) or has_odd_words(text) or self._has_unknown(text)
            return self._carrier(text).parts_of_text(text) if self._carries and is_carried else None
        return parse(text, self._format, self._carrier(text) if self._carries else None)

    def _has_unknown(self, text: str) -> bool:
        """Return whether a text has a character that the model does not know, and that can be carried."""
        return self._carries and not text.isascii() and not self._codec.knows(text)

    def _carrier(self, text: str) -> Carrier:
        return Carrier(
            self._families, text, self._is_usable, foreign=self._model.foreign_scripts, knows=self._codec.knows
        )

    def _is_usable(self, word: str) -> bool:
        """Return whether the model reads and writes a word as it is, such as one that stands in for a placeholder."""
        codecs, options = [self._codec], self._options
        if self._onward:
            codecs, options = [self._codec, self._onward.codec], self._onward.options
        return all(codec.can_copy(word) for codec in codecs) and not any(
            text in word for text in options.suppressed_texts
        )

    def _search(self, segment: Segment, start: int, block: _Sentences, options: DecodingOptions) -> PlannedSearch:
        """Plan the search for a sentence that begins at a place of its text."""
        terms, later = NO_SENTENCE_TERMS, list[FoundTerm]()
        if self._terms_wanted.fields or block.words or block.terms:
            terms = self._terms(segment, start, block, later)
            if later and not options.token_details:
                # The second model keeps the terms where the alignment puts them.
                options = replace(options, token_details=True)
        renderer = SentenceRenderer(
            codec=self._codec,
            source_spans=terms.offsets(segment, self._codec, start) if options.token_details else (),
            source_with_terms=terms.source.text if terms.source else "",
            terms=terms.target,
            assessor=self._assessor(segment, terms) if options.quality else None,
            writer=self._writer,
            written=self._written,
            prefix=options.target_prefix,
            looks_at_amounts=not terms.target and self._may_lose_amounts(segment),
        )
        sentence = self._model.sentence(
            terms.source_ids if terms.source else segment.source_ids,
            options,
            terms.added_to(self._constraints) if terms.target else self._constraints,
            language_ids=self._codec.target_prefix_ids,
        )
        origin = SentenceOrigin(segment.text, start, later) if self._onward else None
        return PlannedSearch(sentence, renderer, self._lexicon_ids(segment, terms, is_asked=bool(later)), origin)

    def _assessor(self, segment: Segment, terms: SentenceTerms) -> SentenceAssessor:
        model = self._model
        if model.quality_estimator is None:
            raise ValueError(f"{model.name}/{model.version} has no quality head")
        spans = () if terms.source else self._codec.sentence_offsets(segment.text)
        return SentenceAssessor(estimator=model.quality_estimator, source=segment.text, spans=spans)

    def _may_lose_amounts(self, segment: Segment) -> bool:
        """Return whether a lost amount of a sentence is worth another search: none if the caller has a say in words."""
        options = self._options
        is_asked_otherwise = options.return_alternatives or options.target_prefix or options.suppressed_texts
        return self._can_require and not is_asked_otherwise and may_lose_amounts(segment.text, self._codec)

    def _lexicon_ids(self, segment: Segment, terms: SentenceTerms, *, is_asked: bool = False) -> tuple[int, ...]:
        """Return the translation in the lexicon; none for a sentence whose caller has a say in its words."""
        options = self._options
        is_asked_otherwise = (
            is_asked
            or terms.target
            or terms.source
            or options.target_prefix
            or options.suppressed_texts
            or options.sampling
        )
        target_ids = () if is_asked_otherwise else self._model.lexicon_ids(segment.text)
        fits = options.min_target_length < len(target_ids) <= _max_target_length(self._model, options)
        return target_ids if fits else ()

    def _terms(self, segment: Segment, start: int, block: _Sentences, later: list[FoundTerm]) -> SentenceTerms:
        """Find the terms of a sentence outside untranslated parts, and the words for placeholders.

        The terms that a second model keeps are added to `later`.
        """
        found = [term for term in self._terms_wanted.find(segment.text, start) if not _overlaps(term, block.verbatim)]
        if self._onward:
            later += [term for term in found if term.pattern is None]
            found = [term for term in found if term.pattern is not None]
        if block.terms:
            found += [
                term
                for term in block.terms
                if start <= term.start and term.end <= start + len(segment.text)
                if self._can_require or term.pattern is not ProtectedPattern.PLACEHOLDER
            ]
        words = list(_words_of(segment, start, block.words))
        if self._can_require and len(words) <= MAX_REQUIRED_WORDS:
            found = sorted((*found, *words), key=lambda term: term.start)
        return plan_terms(
            [self._simplified_term(term) for term in found],
            self._codec,
            segment=segment,
            start=start,
            suppressed_texts=self._options.suppressed_texts,
            max_tokens=_max_target_length(self._model, self._options) - len(self._constraints.prefix_ids) - 1,
            in_source=self._model.reads_terms,
        )

    @property
    def _can_require(self) -> bool:
        """True if a search may require what the hypotheses of another left out."""
        return self._model.keeps_terms and not self._options.sampling and self._options.beam_size > 1

    def _simplified_term(self, term: FoundTerm) -> FoundTerm:
        """Return a term with its translations as the model writes them, and remember how the caller does."""
        writer = self._writer
        if writer is None:
            return term
        targets = tuple(map(writer.simplify, term.targets))
        for target, written in zip(targets, term.targets, strict=True):
            self._written.setdefault(target, written)
        return replace(term, targets=targets)


def _words_of(segment: Segment, start: int, words: Iterable[Inline]) -> Iterator[FoundTerm]:
    """Yield the words of a sentence that stand in for placeholders."""
    for inline in words:
        if start <= inline.start and inline.end <= start + len(segment.text):
            word = segment.text[inline.start - start : inline.end - start]
            yield FoundTerm(
                start=inline.start,
                end=inline.end,
                source=word,
                targets=(word,),
                pattern=ProtectedPattern.PLACEHOLDER,
                is_ordered=inline.is_ordered,
            )


def _simplified(options: DecodingOptions, writer: TraditionalWriter) -> DecodingOptions:
    """Return options with their texts as the model writes them."""
    if not (options.target_prefix or options.suppressed_texts):
        return options
    return replace(
        options,
        target_prefix=writer.simplify(options.target_prefix),
        suppressed_texts=tuple(map(writer.simplify, options.suppressed_texts)),
    )


def _overlaps(term: FoundTerm, spans: Iterable[Span]) -> bool:
    return any(start < term.end and term.start < end for start, end in spans)


def _term_violations(model: LoadedModel, terms: Terms) -> list[FieldViolation]:
    description = (
        f"needs inspected_rows, which the decoder of {model.name}/{model.version} lacks; export the model again"
    )
    return [FieldViolation(field=field, description=description) for field in terms.fields]


def _max_target_length(model: LoadedModel, options: DecodingOptions) -> int:
    return options.max_target_length or model.bundle.manifest.dimensions.max_target_length


def _target_constraints(model: LoadedModel, options: DecodingOptions) -> tuple[TargetConstraints, list[FieldViolation]]:
    """Tokenise the texts in the options."""
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
