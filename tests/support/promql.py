"""The series that a PromQL expression asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9][0-9.a-z]*|[=!]~|!=|[^\s]')
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "bool", "offset", "sum", "max", "min", "avg", "count", "topk", "quantile"}


@dataclass(frozen=True, kw_only=True)
class Selector:
    """A metric with matchers, such as `up{job="xuanzang"}`."""

    name: str
    matchers: list[tuple[str, str, str]] = field(default_factory=list)
    """Label, operator, value."""

    def matches(self, labels: dict[str, str]) -> bool:
        """Return whether a series with these labels is selected."""
        return all(_matches(labels.get(label, ""), operator, value) for label, operator, value in self.matchers)


def _matches(actual: str, operator: str, value: str) -> bool:
    if "~" in operator:
        return bool(re.fullmatch(value, actual)) is (operator == "=~")
    return (actual == value) is (operator == "=")


def selectors(expression: str) -> list[Selector]:
    """Return the selectors of a valid expression."""
    return [Selector(name=name, matchers=matchers) for name, matchers in _found(expression) if name]


def grouping_labels(expression: str) -> set[str]:
    """Return the labels that an expression groups or joins series by."""
    return {label for name, matchers in _found(expression) if not name for label, _, _ in matchers}


def _found(expression: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the selectors, and with an empty name the labels of each grouping."""
    tokens = [*_TOKEN.findall(expression), ""]
    at = 0
    while at < len(tokens) - 1:
        token, following = tokens[at], tokens[at + 1]
        at += 1
        if token in _GROUPING:
            end = tokens.index(")", at)
            yield "", [(label, "", "") for label in tokens[at + 1 : end] if label != ","]
            at = end + 1
        elif _NAME.fullmatch(token) and following != "(" and token not in _WORDS:
            end = tokens.index("}", at) if following == "{" else at
            inside = [each for each in tokens[at + 1 : end] if each != ","]
            triples = zip(inside[::3], inside[1::3], inside[2::3], strict=True)
            yield token, [(label, operator, value[1:-1]) for label, operator, value in triples]
            at = end
