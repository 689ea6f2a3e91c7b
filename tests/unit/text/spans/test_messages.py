"""ICU messages are parsed: only the literal text of their branches is translated."""

from __future__ import annotations

import pytest

from xuanzang.text.markup.document import Block
from xuanzang.text.spans.carrying import Carrier
from xuanzang.text.spans.messages import parse_message, raw_of
from xuanzang.text.types import PlaceholderFamily

MESSAGES = (
    "You have {n, plural, =0 {no messages} one {# message} other {# messages}} left.",
    "{g, select, male {He has {n, plural, one {a cat} other {# cats}}} other {They don''t}}",
    "{0,choice,0#no files|1#one file|1<{0} files}",
    "{n, plural, offset:1 one {a} other {b '{'c'}' {d, date, short}}}",
    "{n,selectordinal,one{#st}two{#nd}few{#rd}other{#th}}",
)


def literals(text: str) -> list[str]:
    """Return the texts of the blocks of a message."""

    def of(parts: tuple[str | Block, ...]) -> list[str]:
        blocks = [part for part in parts if isinstance(part, Block)]
        return [text for block in blocks for text in (block.text, *(t for i in block.inlines for t in of(i.nested)))]

    carrier = Carrier({PlaceholderFamily.ICU}, "", lambda word: True)
    return of(carrier.parts_of_text(text) or ())


@pytest.mark.parametrize("text", MESSAGES)
def test_a_message_is_written_as_it_was(text: str) -> None:
    message = parse_message(text)
    assert message is not None
    assert raw_of(message) == text


def test_only_literal_text_is_translated() -> None:
    assert literals(MESSAGES[0]) == ["You have #3 left.", "no messages", "#1 message", "#2 messages"]
    assert literals(MESSAGES[2]) == ["no files", "one file", "#1 files"]
    assert literals("{n, plural, one {#} other {#}}") == []


@pytest.mark.parametrize(
    "text",
    [
        "no message",
        "{name}",
        "{n, number}",
        "{n, plural, one {a}",
        "{n, plural}",
        "{n, plural, one a}",
        "{n, plural, }",
    ],
)
def test_other_texts_are_no_messages(text: str) -> None:
    assert parse_message(text) is None


def test_deep_nesting_is_refused_and_costs_little() -> None:
    assert parse_message("{a, select, other {" * 5000) is None
