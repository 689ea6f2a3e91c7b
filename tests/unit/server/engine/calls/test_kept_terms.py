"""What became of terms in translations."""

from __future__ import annotations

from xuanzang.server.engine.calls.kept_terms import SentenceTerms
from xuanzang.server.engine.terminology.terms import FoundTerm
from xuanzang.server.engine.types import GlossaryOutcome


def outcomes(text: str, *targets: str) -> list[bool]:
    found = [FoundTerm(start=at, end=at + 1, source="源", targets=(target,)) for at, target in enumerate(targets)]
    terms = SentenceTerms(found=tuple((term, None) for term in found))
    return [match.outcome is GlossaryOutcome.HONOURED for match in terms.matches(text)]


def test_a_translation_within_another_has_a_place_of_its_own() -> None:
    assert outcomes("Apple Inc sells phones.", "Apple", "Apple Inc") == [False, True]
    assert outcomes("Apple Inc sells an Apple.", "Apple", "Apple Inc") == [True, True]
    assert outcomes("An Apple of Apple Inc.", "Apple Inc", "Apple") == [True, True]


def test_each_occurrence_of_a_term_has_a_place_of_its_own() -> None:
    assert outcomes("a cat and a cat", "cat", "cat", "cat") == [True, True, False]


def test_a_translation_counts_as_a_whole_word_with_its_marks() -> None:
    assert outcomes("C++ and C#", "C", "C++", "C#") == [False, True, True]
    assert outcomes("Press Ctrl+C.", "Ctrl", "C") == [True, True]
    assert outcomes("We use .NET, (Yahoo!) and #1", ".NET", "Yahoo!", "#1") == [True, True, True]
    assert outcomes("the Skylark's price", "Skylark") == [True]
