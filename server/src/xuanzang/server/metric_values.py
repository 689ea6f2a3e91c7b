"""Values of the metrics' labels, and bounds of their buckets: all that there are."""

from __future__ import annotations

import math

FINISH_REASONS = ("eos", "length", "deadline", "cancelled", "error")
"""How a request ended; "length" if any of its texts reached `max_target_length`, else "eos" if all were translated."""

FAILURE_REASONS = ("overloaded", "draining", "queue_timeout", "deadline", "cancelled", "invalid", "backend")
"""Why a request has no translation. "queue_timeout": its deadline passed while it waited; "deadline": while it ran."""

RETIRE_REASONS = ("eos", "length", "loop", "terms", "deadline", "cancelled", "error")
"""Why a sentence left its batch. It is translated again if its translation was a repetition ("loop") or lacked a
term ("terms")."""

LENGTH_CLASSES = {"short": 32, "medium": 128, "long": 512, "document": math.inf}
"""Classes of requests by their source tokens, with the maximum of each. The objective for p95 has a row for each."""

TERM_OUTCOMES = ("honoured", "not_writable", "no_room", "not_reached")
"""What became of the terms that a text has."""

QUALITY_FLAGS = (
    *("repetition", "length_ratio", "untranslated", "truncated", "low_coverage", "number_lost", "name_lost"),
    *("wrong_language", "cut"),
)
"""What is suspicious about translations, as in `xuanzang.server.engine.types.QualityFlag`."""

MODEL_CHANGES = ("loaded", "unloaded", "refused")
"""What became of versions of models, at the start and while the server runs."""

TIERS = ("single", "light", "medium", "heavy")
"""Tiers of the scheduler by their numbers."""

PROMOTIONS = ("promoted", "forced", "refused", "rolled_back")
"""What became of versions that should go live; "forced": in spite of the gate."""

EXPLANATIONS = ("answered", "refused", "failed")
"""What became of requests for an explanation; "refused": as many as may be were being made."""

STATUS_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "RESOURCE_EXHAUSTED"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED"),
)
"""Status codes of the RPCs."""

# Steps take 1 to 10 ms and single short sentences little more, so many of the bounds lie there.
DURATION_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.005, 0.0075, 0.01),
    *(0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60),
)
TOKEN_BUCKETS = tuple(2**power for power in range(15))
PROBABILITY_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COUNT_BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)
