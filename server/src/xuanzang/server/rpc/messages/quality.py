"""`return_quality` of requests, and the quality of hypotheses in answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from xuanzang.server.engine.errors import FieldViolation
from xuanzang.server.engine.types import DecodingOptions, Quality, QualityFlag, ServedModel
from xuanzang.translation.v1 import translation_pb2 as pb

_FLAGS: Mapping[QualityFlag, pb.QualityFlag.ValueType] = MappingProxyType(
    {flag: pb.QualityFlag.Value(f"QUALITY_FLAG_{flag.name}") for flag in QualityFlag}
)


def quality_violations(options: DecodingOptions, model: ServedModel) -> Iterator[FieldViolation]:
    """Find out whether a model can say how far to trust its translations, if it is to.

    Args:
        options: Completed options.
        model: Model that serves the request.

    Yields:
        A violation if it cannot.
    """
    if options.quality and not model.has_quality_head:
        description = (
            f"needs a quality head, which the bundle of {model.name}/{model.version} lacks; the operator can add one "
            "with `xuanzang-server quality`"
        )
        yield FieldViolation(field="return_quality", description=description)


def quality_message(quality: Quality | None) -> pb.Quality | None:
    """Return the quality of a hypothesis as a message; None if it has none.

    Args:
        quality: Quality, if it was asked for.
    """
    if quality is None:
        return None
    return pb.Quality(
        acceptable_probability=quality.acceptable_probability, flags=[_FLAGS[flag] for flag in quality.flags]
    )
