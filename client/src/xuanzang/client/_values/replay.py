"""Comparison of an answer and its conditions with a recorded one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import Message

from xuanzang.client._errors import ServerFaultError, StatusCode
from xuanzang.client._values.capsule import Exchange, messages
from xuanzang.client._values.results import Translation

# Fields that describe an answer's origin and do not change it.
_CIRCUMSTANCES = {"provenance.method", "provenance.sentences", "provenance.pivot.sentences"}
_EXCERPT_CHARACTERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field with another value than in the capsule."""

    field: str
    """Path to the field, such as "provenance.kernels" or "hypotheses[0].text"."""
    recorded: str
    """Value in the capsule, text from the first difference on; floating-point numbers in hexadecimal."""
    replayed: str
    """Value now."""
    first_byte: int | None = None
    """Index of the first byte that differs in the UTF-8 of a text; None for other values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Result of one request of a capsule."""

    translation: Translation
    """The new answer."""
    conditions: tuple[Difference, ...]
    """Differences in what an answer depends on: model, precision, kernels, versions, options in effect."""
    answer: tuple[Difference, ...]
    """Differences between the answers."""

    @property
    def is_identical(self) -> bool:
        """True if the hypotheses are the same, byte for byte."""
        return not self.answer


def compared(exchange: Exchange, translation: Translation) -> Replay:
    """Compare a new answer with the recorded one.

    Raises:
        ServerFaultError: The new answer has no provenance.
    """
    if translation.exchange is None:
        raise ServerFaultError("the server does not say how it translates: it is too old", code=StatusCode.INTERNAL)
    (_, recorded), (_, replayed) = messages(exchange), messages(translation.exchange)
    conditions = tuple(_differences("provenance", recorded.provenance, replayed.provenance))
    for each in (recorded, replayed):
        each.ClearField("provenance")
    answer = tuple(_differences("", recorded, replayed))
    return Replay(translation=translation, conditions=conditions, answer=answer)


def _differences(path: str, old: Message, new: Message) -> Iterator[Difference]:
    """Yield the fields of two messages of one type that differ."""
    before, after = dict(_values(path, old)), dict(_values(path, new))
    for name in before | after:
        recorded, replayed = before.get(name), after.get(name)
        if recorded == replayed:
            continue
        if isinstance(recorded, str) and isinstance(replayed, str) and name.endswith("].text"):
            yield _of_texts(name, recorded, replayed)
        else:
            yield Difference(field=name, recorded=_shown(recorded), replayed=_shown(replayed))


def _values(path: str, message: Message) -> Iterator[tuple[str, object]]:
    """Yield every value that is set in a message, at any depth, with its path."""
    for field, content in message.ListFields():
        name = f"{path}.{field.name}".removeprefix(".")
        if name in _CIRCUMSTANCES:
            continue
        elements = [(f"{name}[{index}]", each) for index, each in enumerate(content)] if field.is_repeated else []
        for where, value in elements or [(name, content)]:
            if isinstance(value, Message):
                yield from _values(where, value)
            else:
                # Hexadecimal: the same bits, and not only numbers that look alike.
                yield where, value.hex() if isinstance(value, float) else value


def _of_texts(name: str, recorded: str, replayed: str) -> Difference:
    common = _common_length(recorded, replayed)
    return Difference(
        field=name,
        recorded=repr(recorded[common : common + _EXCERPT_CHARACTERS]),
        replayed=repr(replayed[common : common + _EXCERPT_CHARACTERS]),
        first_byte=_common_length(recorded.encode(), replayed.encode()),
    )


def _common_length(one: str | bytes, other: str | bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)
