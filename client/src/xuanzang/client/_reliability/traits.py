"""Properties of an RPC that decide whether it is sent again when its answer is late or lost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTraits:
    """Properties of an RPC."""

    rpc: str
    """Its name; latencies are compared among calls of one RPC."""
    is_repeatable: bool
    """True if a call that a server may have carried out may be sent again."""
    may_be_hedged: bool
    """True if a call without an answer may be sent to a second server while the first works on it."""


STREAM = CallTraits(rpc="stream", is_repeatable=True, may_be_hedged=False)
"""A call with many answers; its caller sends requests without an answer again."""
