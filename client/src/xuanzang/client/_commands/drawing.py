"""An explanation as lines of text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import east_asian_width

from xuanzang.client._values.explanations import CandidateFate, CandidateReason, Explanation, SearchStep

_TOKEN_HEAD = ("", "TOKEN", "LOG P", "ATTENDS TO", "INSTEAD")
_TREE_HEAD = ("", "FROM", "TOKEN", "SUM", "FATE")


def lines(explanation: Explanation) -> Iterator[str]:
    """Yield the lines: the translation, its tokens with alternatives, and the steps of the search.

    Args:
        explanation: Explanation of a sentence.
    """
    best = explanation.translation.hypotheses[0]
    yield best.text
    yield f"{explanation.translation.model}/{explanation.translation.model_version}, score {best.score or 0.0:.4f}"
    yield ""
    yield from _table([_TOKEN_HEAD, *_token_rows(explanation)])
    for number, step in enumerate(explanation.search_steps):
        yield ""
        yield f"step {number + 1}"
        chosen = explanation.target_tokens[number].candidate if number < len(explanation.target_tokens) else None
        yield from _table([_TREE_HEAD, *_tree_rows(step, chosen)])
        if step.omitted_candidates:
            yield f"and {step.omitted_candidates} more"
    if explanation.omitted_steps:
        yield ""
        yield f"and {explanation.omitted_steps} more steps"
    if explanation.searches > 1:
        yield ""
        yield "searched again, because the first translation repeated itself"


def _token_rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    for number, token in enumerate(explanation.target_tokens, 1):
        others = (each for each in token.alternatives if each.id != token.id)
        instead = "forced" if token.forced else "  ".join(f"{each.piece} {each.score:.2f}" for each in others)
        source = explanation.source_tokens[token.source_token].piece
        yield str(number), token.piece, f"{token.score:.3f}", source, instead


def _tree_rows(step: SearchStep, chosen: int | None) -> Iterator[tuple[str, ...]]:
    for index, each in enumerate(step.candidates):
        fate = each.fate.name.lower()
        if each.reason is not CandidateReason.UNSPECIFIED:
            fate += f": {each.reason.name.lower().replace('_', ' ')}"
        if each.fate is CandidateFate.FINISHED and each.final_score is not None:
            fate += f", {each.final_score:.4f}" + (f", rank {each.rank}" if each.rank else "")
        mark = "*" if index == chosen else ""
        parent = "" if each.parent is None else str(each.parent)
        yield f"{index}{mark}", parent, each.piece, "" if each.score is None else f"{each.score:.3f}", fate


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
