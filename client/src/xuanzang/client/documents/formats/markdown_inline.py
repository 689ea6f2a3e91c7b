"""Inline markup of a Markdown block: which parts of it are text, by markdown-it's own rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt, rules_inline
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

_TEXT = (rules_inline.text, rules_inline.newline, rules_inline.escape, rules_inline.entity)
_DELIMITERS = (rules_inline.emphasis.tokenize, rules_inline.strikethrough.tokenize)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Characters that one rule took as text, or as a delimiter that may turn out to be text."""

    start: int
    end: int
    tokens: tuple[Token, ...]
    """Tokens that must have remained text."""

    @property
    def is_text(self) -> bool:
        # Delimiters that were paired are of another type, or empty.
        return all(
            token.type in ("softbreak", "text_special") or (token.type == "text" and token.content)
            for token in self.tokens
        )


class PlacedInline(ParserInline):
    """Inline parser that notes where it finds text."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[int, list[_Step]] = {}

    def text_spans(self, content: str, parser: MarkdownIt, env: EnvType) -> Iterator[tuple[int, int]]:
        """Yield the spans of a block between its markup.

        Args:
            content: Source of the block.
            parser: Parser of the document.
            env: What the document has defined, such as link references.
        """
        self._steps.clear()
        state = StateInline(content, parser, env, [])
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        start = end = 0
        for step in (step for step in self._steps.get(id(state), []) if step.is_text):
            if step.start != end:
                yield start, end
                start = step.start
            end = step.end
        yield start, end

    def tokenize(self, state: StateInline) -> None:
        """Make the tokens of a range, as the base class does, and note where text is."""
        end = state.posMax
        steps = self._steps.setdefault(id(state), [])
        while state.pos < end:
            start, count, has_pending = state.pos, len(state.tokens), bool(state.pending)
            rule = self._matching(state)
            made = tuple(state.tokens[count + has_pending :])
            if rule is None:
                state.pending += state.src[state.pos]
                state.pos += 1
            if rule is None or rule in _TEXT or rule in _DELIMITERS:
                steps.append(_Step(start=start, end=state.pos, tokens=made))
        if state.pending:
            state.pushPending()

    def _matching(self, state: StateInline) -> object | None:
        """Run the rules up to the first that matches; return it."""
        if state.level >= state.md.options["maxNesting"]:
            return None
        return next((rule for rule in self.ruler.getRules("") if rule(state, False)), None)
