"""Replay capsules: files that hold requests and their answers, and the comparison of answers with recorded ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from xuanzang.client._errors import ServerFaultError, StatusCode
from xuanzang.client._output import replaced_file
from xuanzang.translation.v1 import translation_pb2 as pb

if TYPE_CHECKING:
    from xuanzang.client._values.results import Translation

FORMAT = "xuanzang-capsule"
VERSION = 1
MAX_EXCHANGES = 1024
MAX_BYTES = 64 * 2**20

_NOTE = "This file holds the texts of a user and their translations. Share it as you would share those."
PROGRESSIVE_METHOD = "TranslateTextProgressively"
_METHODS = ("TranslateText", "StreamTranslateText", PROGRESSIVE_METHOD)
# Fields that describe an answer's origin and do not change it.
_CIRCUMSTANCES = {"provenance.method", "provenance.sentences", "provenance.pivot.sentences"}
_EXCERPT_CHARACTERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request for one text and the answer to it, both as they crossed the wire."""

    request: bytes
    """TranslateTextRequest that names the version of the model and, with sampling, the seed."""
    translation: bytes
    """Translation with its provenance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """Requests that can be sent again, and their answers. It holds the texts of a user."""

    exchanges: tuple[Exchange, ...]
    """One for each text, 1 to 1024."""

    @classmethod
    def of(cls, translations: Iterable[Translation]) -> Self:
        """Make a capsule of translations.

        Args:
            translations: 1 to 1024 translations made with `return_provenance`.

        Raises:
            ValueError: One of them has no provenance or was cut at its deadline, or they are too many.
        """
        exchanges = []
        for index, translation in enumerate(translations):
            if translation.exchange is None:
                raise ValueError(f"translation {index + 1} has no provenance: it needs return_provenance=True")
            exchanges.append(translation.exchange)
        capsule = cls(exchanges=tuple(exchanges))
        capsule._require_valid()
        return capsule

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no capsule that this version can replay; the message names the field and the limit.
        """
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"{path}: must have at most {MAX_BYTES} bytes")
        try:
            capsule = cls(exchanges=tuple(_exchanges(_document(content))))
            capsule._require_valid()
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return capsule

    def write(self, path: Path, *, report: Callable[[str], None] = lambda _: None) -> None:
        """Write a file that only its owner may read.

        Args:
            path: File to write; an existing one is replaced.
            report: Callback for a message about a file that could not be completed.

        Raises:
            OSError: The file cannot be written.
        """
        document = {
            "format": FORMAT,
            "version": VERSION,
            "note": _NOTE,
            "exchanges": list(map(_as_json, self.exchanges)),
        }
        with replaced_file(path, report=report, mode=0o600) as output:
            json.dump(document, output, ensure_ascii=False, indent=1)
            output.write("\n")

    def _require_valid(self) -> None:
        if not 1 <= len(self.exchanges) <= MAX_EXCHANGES:
            raise ValueError(f"exchanges must have 1 to {MAX_EXCHANGES} elements, has {len(self.exchanges)}")
        for index, exchange in enumerate(self.exchanges):
            request, translation = messages(exchange)
            _require_replayable(request, translation, path=f"exchanges[{index}]")


def messages(exchange: Exchange) -> tuple[pb.TranslateTextRequest, pb.Translation]:
    """Return the request and the answer of an exchange."""
    return (pb.TranslateTextRequest.FromString(exchange.request), pb.Translation.FromString(exchange.translation))


def _require_replayable(request: pb.TranslateTextRequest, translation: pb.Translation, *, path: str) -> None:
    if len(request.contents) != 1:
        raise ValueError(f"{path}.request.contents must have 1 element, has {len(request.contents)}")
    if not request.settings.return_provenance:
        raise ValueError(f"{path}.request.settings.return_provenance must be true")
    if not translation.hypotheses:
        raise ValueError(f"{path}.translation.hypotheses must have at least 1 element, has 0")
    if any(each.finish_reason == pb.FINISH_REASON_DEADLINE for each in translation.hypotheses):
        raise ValueError(f"{path}.translation was cut at its deadline and depends on the time, so it has no replay")
    if translation.provenance.method not in _METHODS:
        methods = ", ".join(_METHODS)
        method = translation.provenance.method
        raise ValueError(f"{path}.translation.provenance.method must be one of {methods}, is {method!r}")


def _as_json(exchange: Exchange) -> dict[str, Any]:
    request, translation = messages(exchange)
    # Floats are written with the fewest digits that give the same bits again.
    return {
        "request": MessageToDict(request, preserving_proto_field_name=True),
        "translation": MessageToDict(translation, preserving_proto_field_name=True),
    }


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f'format must be "{FORMAT}"')
    if document.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION}, is {document.get('version')!r}")
    return document


def _exchanges(document: dict[str, Any]) -> Iterable[Exchange]:
    exchanges = document.get("exchanges")
    if not isinstance(exchanges, list):
        raise ValueError("exchanges must be a list")  # noqa: TRY004 - the content of a file, not an argument
    for index, each in enumerate(exchanges):
        path = f"exchanges[{index}]"
        if not isinstance(each, dict) or each.keys() != {"request", "translation"}:
            raise ValueError(f"{path} must have exactly the fields request and translation")
        request = _parsed(each["request"], pb.TranslateTextRequest(), path=f"{path}.request")
        translation = _parsed(each["translation"], pb.Translation(), path=f"{path}.translation")
        yield Exchange(request=request, translation=translation)


def _parsed(value: object, message: Message, *, path: str) -> bytes:
    if not isinstance(value, dict):
        raise ValueError(f"{path} must be an object")  # noqa: TRY004 - as above
    try:
        ParseDict(value, message)
    except ParseError as error:
        raise ValueError(f"{path}: {error}") from error
    return message.SerializeToString(deterministic=True)


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
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)
