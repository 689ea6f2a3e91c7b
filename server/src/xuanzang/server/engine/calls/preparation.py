"""Check the texts of a request against the limits while splitting and tokenising them. Runs in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.models.loaded import NO_LIMITS, LoadedModel, TargetLimits
from xuanzang.server.engine.scheduling.cost import predicted_cost
from xuanzang.server.engine.scheduling.request import Terms
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.text.codec import Piece
from xuanzang.server.engine.text.offsets import Span
from xuanzang.server.engine.types import DecodingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The texts of a request, ready to be searched."""

    texts: list[list[Piece]]
    sentences: list[Sentence]
    """One for each piece with source ids."""
    spans: list[tuple[Span, ...]]
    """For each sentence which characters of its text its source ids stand for; empty if nobody asks."""


def prepare(texts: Sequence[str], *, terms: Terms, options: DecodingOptions, settings: EngineSettings) -> Prepared:
    """Split and tokenise the texts of a request.

    Args:
        texts: In the source language.
        terms: Of the caller.
        options: Of the request.
        settings: Hold the limits.

    Returns:
        Pieces and sentences.

    Raises:
        InvalidInputError: If texts or options are over a limit; all of them are named.
    """
    model, codec = terms.model, terms.text
    limits, violations = _target_limits(model, options)
    prepared = Prepared(texts=[], sentences=[], spans=[])
    cost = 0
    for index, text in enumerate(texts):
        field = f"contents[{index}]"
        if len(text) > settings.max_content_characters:
            violations.append(_too_long(field, len(text), settings.max_content_characters, "characters"))
            continue
        pieces = codec.split(text)
        violations += _piece_violations(field, pieces, codec.max_source_length)
        violations += _sentence_violations(field, pieces, options)
        sentences = [model.sentence(piece.source_ids, options, limits) for piece in pieces if piece.source_ids]
        prepared.texts.append(pieces)
        prepared.sentences.extend(sentences)
        if options.token_details:
            prepared.spans.extend(codec.spans(pieces))
        cost += _searches(options) * sum(predicted_cost(sentence) for sentence in sentences)
        if cost > settings.max_queue_tokens // 2:
            # It could never be accepted, so the rest is not worth tokenising.
            violations.append(_too_costly(field, cost, settings.max_queue_tokens // 2))
            break
    if violations:
        raise InvalidInputError(violations)
    return prepared


def _searches(options: DecodingOptions) -> int:
    """Searches that are made for one sentence."""
    return options.num_hypotheses if options.return_alternatives or options.sampling else 1


def _target_limits(model: LoadedModel, options: DecodingOptions) -> tuple[TargetLimits, list[FieldViolation]]:
    """Tokenise what the options say of the target."""
    if not (options.target_prefix or options.suppressed_texts):
        # To ask the tokeniser means to wait for the interpreter afterwards: it lets go of it while it works.
        return NO_LIMITS, []
    prefix_ids = tuple(model.text.encode_target(options.target_prefix))
    suppressed = [model.text.sequences(text) for text in options.suppressed_texts]
    violations = [
        FieldViolation(field=f"options.suppressed_texts[{index}]", description="holds nothing but white space")
        for index, (text, sequences) in enumerate(zip(options.suppressed_texts, suppressed, strict=True))
        if text.isspace() or not sequences
    ]
    limit = options.max_target_length or model.bundle.manifest.dimensions.max_target_length
    if prefix_ids and len(prefix_ids) >= limit:
        description = f"must have fewer than {limit} target tokens, has {len(prefix_ids)}"
        violations.append(FieldViolation(field="options.target_prefix", description=description))
    if not model.text.can_write(prefix_ids):
        description = "has characters that the model cannot write"
        violations.append(FieldViolation(field="options.target_prefix", description=description))
    sequences = tuple(sequence for of_text in suppressed for sequence in of_text)
    return TargetLimits(prefix_ids=prefix_ids, suppressed_sequences=sequences), violations


def _too_long(field: str, length: int, limit: int, unit: str) -> FieldViolation:
    return FieldViolation(field=field, description=f"must have at most {limit} {unit}, has {length}")


def _too_costly(field: str, cost: int, limit: int) -> FieldViolation:
    description = (
        f"must need at most {limit} tokens together, source and expected target times beam size; {field} and those "
        f"before it need {cost}"
    )
    return FieldViolation(field="contents", description=description)


def _piece_violations(field: str, pieces: Iterable[Piece], limit: int) -> Iterable[FieldViolation]:
    longest = max((len(piece.source_ids) for piece in pieces), default=0)
    if longest > limit:
        unit = "source tokens in a stretch without punctuation or white space"
        yield _too_long(field, longest, limit, unit)


def _sentence_violations(field: str, pieces: Iterable[Piece], options: DecodingOptions) -> Iterable[FieldViolation]:
    sentences = sum(1 for piece in pieces if piece.source_ids)
    if sentences < 2:
        return
    if options.num_hypotheses > 1:
        description = f"more than 1 only for texts of a single sentence, {field} has {sentences}"
        yield FieldViolation(field="options.num_hypotheses", description=description)
    if options.target_prefix:
        description = f"only for texts of a single sentence, {field} has {sentences}"
        yield FieldViolation(field="options.target_prefix", description=description)
