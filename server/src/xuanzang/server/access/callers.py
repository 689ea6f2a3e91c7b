"""Callers: permission to call, the sender of an RPC, and charges to quotas."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from typing_extensions import override

from xuanzang.server.access.errors import (
    ModelNotAllowedError,
    NotAWriterError,
    QuotaExceededError,
    UnauthenticatedError,
)
from xuanzang.server.access.keys import ApiKey
from xuanzang.server.access.metrics import KeyMetrics
from xuanzang.server.access.quota_counts import KeyCounts
from xuanzang.server.access.quotas import Bucket, Clock, Places
from xuanzang.server.access.settings import ANYBODY
from xuanzang.server.engine.errors import DrainingError, FieldViolation, InvalidInputError, OverloadedError
from xuanzang.server.engine.types import CallerId, Route, ServedModel
from xuanzang.server.metric_series import Counter

Resolve = Callable[..., Awaitable[Route]]
"""`RequestRouter.route`."""

INVALID_KEY = "the API key is not valid"

_FREE = nullcontext()


class Caller:
    """A caller without a key, who may use everything."""

    key_id: str | None = None

    def __init__(self, identity: CallerId) -> None:
        """Make a caller; a busy server shares its time by the identity."""
        self.identity = identity

    def allows(self, model: ServedModel) -> bool:  # noqa: ARG002 - those who hold a key use it
        """Return whether the caller may use a model."""
        return True

    def limited(self, resolve: Resolve) -> Resolve:
        """Return `RequestRouter.route`; it raises ModelNotAllowedError for models that the caller may not use."""
        return resolve

    def charged(self, texts: Sequence[str]) -> AbstractContextManager[None]:  # noqa: ARG002 - as above
        """Charge a request to the caller; what becomes of it decides whether its characters are given back.

        A quota smaller than the request raises InvalidInputError, a used-up one QuotaExceededError, and a
        key that has been revoked since UnauthenticatedError.
        """
        return _FREE


class KeyCaller(Caller):
    """The holder of a key: one object for all its RPCs."""

    def __init__(
        self,
        key: ApiKey,
        metrics: KeyMetrics,
        *,
        revoked: Counter,
        counts: KeyCounts | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Make a caller; without `counts` its quotas are those of this process alone."""
        # No network address can hold the control character.
        super().__init__(CallerId(f"key\0{key.id}"))
        self.key_id = key.id
        self._metrics, self._revoked = metrics, revoked
        self._counts = counts or KeyCounts.new()
        with self._counts.lock():
            self._requests = Bucket(key.requests_per_minute, clock, self._counts, 0)
            self._characters = Bucket(key.characters_per_minute, clock, self._counts, 1)
        self._places = Places(key.concurrent_sentences, clock, self._counts)
        self.key = key

    def change(self, key: ApiKey) -> None:
        """Take over a changed entry of the keys file; used quotas stay used."""
        with self._counts.lock():
            self._requests.change(key.requests_per_minute)
            self._characters.change(key.characters_per_minute)
        self._places.limit = key.concurrent_sentences
        self.key = key

    def revoke(self) -> None:
        """Refuse the key from now on, also to RPCs in progress."""
        self.key = self.key.model_copy(update={"revoked": True})

    def require_valid(self) -> None:
        """Raise UnauthenticatedError for a revoked key."""
        if self.key.revoked:
            raise UnauthenticatedError(INVALID_KEY, self._revoked)

    @override
    def allows(self, model: ServedModel) -> bool:
        models = self.key.models
        return models is None or model.name in models or f"{model.name}/{model.version}" in models

    @override
    def limited(self, resolve: Resolve) -> Resolve:
        async def resolved(**wanted: Any) -> Route:
            route = await resolve(**wanted)
            refused = [each for each in (route.origin.model, route.model) if not self.allows(each)]
            if refused:
                self._metrics.refusals["model"].inc()
                allowed = ", ".join(sorted(set(self.key.models or ())))
                name = f"{refused[0].name}/{refused[0].version}"
                description = f"{name} is not allowed with this API key; allowed: {allowed}"
                raise ModelNotAllowedError(FieldViolation(field="settings.model", description=description))
            return route

        return resolved

    @override
    @contextmanager
    def charged(self, texts: Sequence[str]) -> Iterator[None]:
        try:
            self.require_valid()
        except UnauthenticatedError as refusal:
            refusal.count()
            raise
        with self._charged(sum(map(len, texts)), requests=1):
            yield

    @contextmanager
    def _charged(self, characters: int, *, requests: int = 0) -> Iterator[None]:
        """Charge characters, and give them back if nothing is translated."""
        self._take(characters, requests)
        try:
            yield
        except (DrainingError, InvalidInputError, OverloadedError):
            # Nothing was translated. The request counts all the same: to refuse is work, too.
            with self._counts.lock():
                self._characters.take(-characters)
            characters = 0
            raise
        finally:
            self._metrics.characters.inc(characters)

    @contextmanager
    def hold_sentences(self, count: int, *, characters: int, forced_tokens: int) -> Iterator[None]:
        """Hold places for sentences while they are searched; quotas raise the errors of `charged`.

        The sentences have some characters, which are charged already. Target tokens that the options force for each are
        charged as characters where they are more.
        """
        with ExitStack() as held:
            try:
                held.enter_context(self._places.held(count))
            except (InvalidInputError, OverloadedError):
                self._metrics.refusals["sentences"].inc()
                raise
            held.enter_context(self._charged(max(0, count * forced_tokens - characters)))
            self._metrics.sentences.inc(count)
            try:
                yield
                self._metrics.translated_sentences.inc(count)
            finally:
                self._metrics.sentences.dec(count)

    def _take(self, characters: int, requests: int) -> None:
        """Take requests and characters, or neither."""
        limit = self._characters.limit
        if limit is not None and characters > limit:
            self._metrics.refusals["characters"].inc()
            description = f"must have at most {limit} characters together with this API key, has {characters}"
            raise InvalidInputError([FieldViolation(field="contents", description=description)])
        with self._counts.lock():
            of_requests = self._requests.seconds_until(requests), "requests", self._requests.limit
            of_characters = self._characters.seconds_until(characters), "characters", self._characters.limit
            seconds, what, quota = max(of_requests, of_characters, key=lambda wait: wait[0])
            if not seconds:
                self._requests.take(requests)
                self._characters.take(characters)
        if seconds:
            self._metrics.refusals[what].inc()
            message = f"the quota of the API key, {quota} {what} per minute, is used up"
            raise QuotaExceededError(message, retry_after_seconds=seconds, reason="quota")
        self._metrics.requests.inc(requests)


class GlossaryWriters:
    """Callers who may store glossaries, delete them and read their entries."""

    def __init__(self, setting: str = "") -> None:
        """Read the setting: ids of API keys with commas between them, or "*"; empty for no caller."""
        self._anybody = setting == ANYBODY
        self._key_ids = frozenset(filter(None, setting.split(",")))

    @property
    def exist(self) -> bool:
        """True if the server stores glossaries."""
        return bool(self._key_ids)

    def require(self, caller: Caller) -> None:
        """Raise NotAWriterError for a caller who may not."""
        if not self._anybody and caller.key_id not in self._key_ids:
            raise NotAWriterError("this caller may not store glossaries: --glossary-writers does not name its API key")
