"""How the terms of a sentence are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.kept_terms import SentenceTerms, plan_terms
from xuanzang.server.engine.models.loaded import UNCONSTRAINED, open_codec
from xuanzang.text.codec import TextCodec
from xuanzang.text.terminology.terms import GlossaryEntry, TermIndex, Terms
from xuanzang.text.types import GlossaryOutcome, ProtectedPattern

TEXT = "我有一只猫和两只狗。"


@pytest.fixture(scope="module")
def codec(tiny_bundle_repository: Path) -> TextCodec:
    return open_codec(load_bundle(tiny_bundle_repository / "tiny" / "1"))


def planned(
    codec: TextCodec, text: str, *, in_source: bool = True, max_tokens: int = 50, **targets: str
) -> SentenceTerms:
    entries = [GlossaryEntry(source=source, targets=(target,)) for source, target in targets.items()]
    terms = Terms(indices=(TermIndex(entries),), patterns=(ProtectedPattern.NUMBER,), fields=("glossary_entries",))
    [segment] = codec.split(text)
    found = terms.find(text)
    return plan_terms(
        found, codec, segment=segment, start=0, suppressed_texts=(), max_tokens=max_tokens, in_source=in_source
    )


def required(terms: SentenceTerms) -> tuple[bool, bool]:
    """Return whether the first search requires phrases, and whether another would."""
    constraints = terms.added_to(UNCONSTRAINED)
    return constraints.phrases is not None, constraints.expected_phrases is not None


def test_terms_in_the_source_are_required_of_a_second_search_only(codec: TextCodec) -> None:
    terms = planned(codec, TEXT, 猫="tiger", 狗="horse")
    assert terms.source is not None
    assert terms.source.text == "我有一只 tiger 和两只 horse。"
    assert terms.source_ids == tuple(codec.encode(terms.source.text))
    assert required(terms) == (False, True)


def test_a_model_that_does_not_read_terms_gets_the_sentence_as_it_is(codec: TextCodec) -> None:
    terms = planned(codec, TEXT, in_source=False, 猫="tiger")
    assert terms.source is None
    assert required(terms) == (True, False)


@pytest.mark.parametrize("in_source", [True, False])
def test_protected_texts_are_in_the_source_already(codec: TextCodec, *, in_source: bool) -> None:
    terms = planned(codec, "我有12只猫。", in_source=in_source)
    assert terms.source is None
    assert required(terms) == (False, True)


def test_a_term_that_the_source_cannot_hold_is_required_at_once(
    codec: TextCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "can_read", lambda text: text != "tiger")
    terms = planned(codec, TEXT, 猫="tiger", 狗="horse")
    assert terms.source is not None
    assert terms.source.text == "我有一只猫和两只 horse。"
    assert required(terms) == (True, False)


def test_a_sentence_that_terms_make_too_long_stays_as_it_is(codec: TextCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "max_source_length", len(codec.encode(TEXT)))
    terms = planned(codec, TEXT, 猫="tiger tiger tiger tiger")
    assert terms.source is None
    assert required(terms) == (True, False)


def test_a_term_that_is_not_kept_is_not_put_into_the_source(codec: TextCodec) -> None:
    terms = planned(codec, TEXT, max_tokens=1, 猫="tiger tiger tiger")
    assert (terms.source, terms.phrases) == (None, None)
    assert terms.target is not None
    assert [reason for _, reason in terms.target.found] == [GlossaryOutcome.NO_ROOM]
    assert required(terms) == (False, False)
