"""The times of a sentence on its way through the queue and a worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTimeline:
    """Times at which a sentence was worked on, and the size of its batches. Times are those of `time.monotonic`."""

    queued_at: float
    taken_at: float
    """Time at which a worker had taken it from the queue and began to encode it."""
    encoded_at: float
    """Time at which it had joined the batch: encoded, with all that joined at the same step."""
    finished_at: float
    """Time at which it left the batch."""
    worker: int
    """Number of the worker, from 0."""
    batch_size: int
    """Sentences of the model that the worker decoded when it had joined, itself counted."""
    steps: int
    """Decoder steps until it left the batch, those of earlier searches counted."""
    searches: int = 1
    """Searches made: more than 1 if one found a repetition or left out a term."""
    terms_required: bool = False
    """Whether the best hypothesis is of a search that required the terms."""
