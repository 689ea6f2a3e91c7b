"""Translations as the JSON of the gateway's own API; `messages` describes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from xuanzang.client import GlossaryMatch, Hypothesis, Quality, TokenDetail
from xuanzang.gateway.translation import Translated


def rendered(result: Translated) -> dict[str, Any]:
    """Return the message of a translation.

    Args:
        result: A text in the target language.
    """
    made = result.translation
    return {
        "text": result.text,
        "source_language": result.source,
        "detection_confidence": result.confidence,
        "model": made.model,
        "model_version": made.model_version,
        "hypotheses": [_hypothesis(each) for each in made.hypotheses],
        "glossary_matches": [_match(each) for each in made.glossary_matches],
        "provenance": asdict(made.provenance) if made.provenance else None,
    }


def _hypothesis(hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "text": hypothesis.text,
        "score": hypothesis.score,
        "finish_reason": hypothesis.finish_reason.name.lower(),
        "token_count": hypothesis.token_count,
        "tokens": [_token(each) for each in hypothesis.tokens],
        "quality": _quality(hypothesis.quality) if hypothesis.quality else None,
    }


def _token(token: TokenDetail) -> dict[str, Any]:
    return {
        "text": token.text,
        "score": token.score,
        "source_start": token.source_start,
        "source_end": token.source_end,
    }


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "acceptable_probability": quality.acceptable_probability,
        "flags": sorted(each.name.lower() for each in quality.flags),
    }


def _match(match: GlossaryMatch) -> dict[str, Any]:
    return {
        "source": match.source,
        "source_start": match.source_start,
        "source_end": match.source_end,
        "target": match.target,
        "outcome": match.outcome.name.lower(),
        "pattern": match.pattern.name.lower(),
    }
