"""Search options of which a test names only those that matter to it."""

from __future__ import annotations

import dataclasses
from typing import Any

from xuanzang.server.engine.decoding.hypotheses import SearchOptions
from xuanzang.server.engine.types import DecodingOptions

_SEARCH_FIELDS = {field.name for field in dataclasses.fields(SearchOptions)}


def search_options(*, beam_size: int = 4, max_target_length: int = 20, **changes: Any) -> SearchOptions:
    """Return options of a search, with one hypothesis, length penalty 1 and nothing else unless asked for.

    Args:
        beam_size: Hypotheses kept.
        max_target_length: Maximum target tokens, eos counted.
        changes: Other fields of `SearchOptions` or `DecodingOptions`.
    """
    own = {name: value for name, value in changes.items() if name in _SEARCH_FIELDS}
    decoding: dict[str, Any] = {"num_hypotheses": 1, "length_penalty": 1.0, "min_target_length": 0}
    decoding |= {name: value for name, value in changes.items() if name not in _SEARCH_FIELDS}
    return SearchOptions(
        decoding=DecodingOptions(beam_size=beam_size, max_target_length=None, **decoding),
        max_target_length=max_target_length,
        **own,
    )
