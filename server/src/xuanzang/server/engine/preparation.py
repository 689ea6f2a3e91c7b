"""Check the texts of a request against the limits while splitting and tokenising them. Runs in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.text import Piece, TextCodec
from xuanzang.server.engine.values import DecodingOptions, EngineSettings


def prepare(
    texts: Sequence[str], *, codec: TextCodec, options: DecodingOptions, settings: EngineSettings
) -> list[list[Piece]]:
    """Split and tokenise the texts of a request.

    Args:
        texts: In the source language.
        codec: Of the model.
        options: Of the request.
        settings: Hold the limits.

    Returns:
        Pieces of each text.

    Raises:
        InvalidInputError: If texts are over a limit; all of them are named.
    """
    prepared: list[list[Piece]] = []
    violations: list[FieldViolation] = []
    tokens = 0
    for index, text in enumerate(texts):
        field = f"contents[{index}]"
        if len(text) > settings.max_content_characters:
            violations.append(_too_long(field, len(text), settings.max_content_characters, "characters"))
            continue
        pieces = codec.split(text)
        violations += _piece_violations(field, pieces, codec.max_source_length)
        violations += _hypothesis_violations(field, pieces, options)
        prepared.append(pieces)
        tokens += sum(len(piece.source_ids) for piece in pieces)
        if tokens > settings.max_queue_source_tokens:
            # It could never be accepted, so the rest is not worth tokenising.
            limit = settings.max_queue_source_tokens
            so_far = f"must have at most {limit} source tokens together, {field} and those before it have {tokens}"
            violations.append(FieldViolation(field="contents", description=so_far))
            break
    if violations:
        raise InvalidInputError(violations)
    return prepared


def _too_long(field: str, length: int, limit: int, unit: str) -> FieldViolation:
    return FieldViolation(field=field, description=f"must have at most {limit} {unit}, has {length}")


def _piece_violations(field: str, pieces: Iterable[Piece], limit: int) -> Iterable[FieldViolation]:
    longest = max((len(piece.source_ids) for piece in pieces), default=0)
    if longest > limit:
        unit = "source tokens in a stretch without punctuation or white space"
        yield _too_long(field, longest, limit, unit)


def _hypothesis_violations(field: str, pieces: Iterable[Piece], options: DecodingOptions) -> Iterable[FieldViolation]:
    sentences = sum(1 for piece in pieces if piece.source_ids)
    if options.num_hypotheses > 1 and sentences > 1:
        description = f"more than 1 only for texts of a single sentence, {field} has {sentences}"
        yield FieldViolation(field="options.num_hypotheses", description=description)
