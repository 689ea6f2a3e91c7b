"""The plan of one call: its tries, their addresses and times, and the failure that ends it."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from xuanzang.client._errors import OverloadedError, StatusCode
from xuanzang.client._reliability.addresses import Addresses
from xuanzang.client._reliability.first_contact import FirstContact
from xuanzang.client._reliability.throttle import CallShape, Throttle
from xuanzang.client._reliability.tries import Fault, FaultKind, Latencies, Method, RetryBudget

# Tries that may be refused with a delay, for want of a quota or without a throttle; else time is the limit.
_MAX_OVERLOADS = 5
# Tries that may break under way: a request that kills servers must not kill them all.
_MAX_BREAKS = 3
# Seconds before a call is sent again to addresses that have just failed, doubled each time up to the second.
_FIRST_BACKOFF = 0.05
_LONGEST_BACKOFF = 1.0
_MAX_CALLERS = 1024
# Shortest wait for another look whether a call may be hedged.
_HEDGE_SECONDS = 0.2


@dataclass(slots=True, kw_only=True)
class Shared:
    """State that all calls of a client share."""

    addresses: Addresses
    clock: Callable[[], float]
    random: Callable[[], float]
    latencies: Latencies = field(default_factory=Latencies)
    budget: RetryBudget = field(default_factory=RetryBudget)
    throttles: Sequence[Throttle] = ()
    """One of each address; none: every call is sent, also to a server that will refuse it."""
    first_contact: FirstContact | None = None
    """None: servers that have never answered are treated like others, and the reason is not looked for."""

    _callers: OrderedDict[Hashable, Shared] = field(default_factory=OrderedDict)
    """Shared state of calls on behalf of others, of the last callers; each caller has its own."""
    _lock: Lock = field(default_factory=Lock)

    def of_caller(self, caller: Hashable) -> Shared:
        """Return this state with throttles and a budget of one caller: servers divide their room by callers."""
        with self._lock:
            state = self._callers.pop(caller, None)
            if state is None:
                throttles = [Throttle(self.clock) for _ in self.throttles]
                state = replace(self, throttles=throttles, budget=RetryBudget(), _callers=OrderedDict(), _lock=Lock())
            self._callers[caller] = state
            if len(self._callers) > _MAX_CALLERS:
                self._callers.popitem(last=False)
            return state

    def waits(self, shape: CallShape) -> dict[int, float]:
        """Return the addresses that would refuse a call, each with the seconds until another try."""
        if all(each.has_refused_nothing for each in self.throttles):
            return {}
        draw = self.random()
        waits = ((number, each.wait(shape, draw)) for number, each in enumerate(self.throttles))
        return {number: wait for number, wait in waits if wait is not None}

    @property
    def missing(self) -> FirstContact | None:
        """First contact while no address has ever answered, else None."""
        return None if self.addresses.have_answered else self.first_contact

    @property
    def causes(self) -> str:
        """Obstacles between the client and its servers; empty if one has answered, or nothing is known."""
        missing = self.missing
        return missing.causes() if missing else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Next action of a call."""

    tries: list[tuple[int, int]]
    """Number of each try to send, and of its address."""
    wait: float | None
    """Seconds until the next step, unless a try ends before; None: until one ends."""


@dataclass(slots=True)
class _Try:
    address: int
    begun: float
    shape: CallShape


class CallPlan:
    """Plan of one call. The client asks it for steps, carries them out, and reports the results.

    Args:
        shared: State that all calls of the client share.
        deadline: End of the call, time on the clock.
        size: Size of the request in bytes.
    """

    def __init__(self, shared: Shared, method: Method[Any, Any], *, deadline: float, size: int) -> None:
        self._shared = shared
        self._method = method
        self._size = size
        self._numbers = itertools.count()
        self._tries: dict[int, _Try] = {}
        self._hedge_at = math.inf
        self._hedges = int(method.may_be_hedged)
        self.forget_failures(deadline=deadline)
        self._send_at: float | None = self._begun

    def forget_failures(self, *, deadline: float) -> None:
        """Go on like a call that begins now; tries under way stay."""
        self._deadline, self._begun = deadline, self._shared.clock()
        self._failed: set[int] = set()  # addresses tried since the last backoff
        self._backoff = _FIRST_BACKOFF
        self._overloads = self._breaks = 0

    def step(self) -> Step:
        """Return what to do now.

        Raises:
            OverloadedError: The call has failed without being sent, because the servers are overloaded.
        """
        now = self._shared.clock()
        if self._hedge_at <= now:
            self._hedge(now)
        tries = self._begin(now) if self._send_at is not None and self._send_at <= now else []
        wake_at = min(self._hedge_at, math.inf if self._send_at is None else self._send_at)
        return Step(tries=tries, wait=None if wake_at == math.inf else max(0.0, wake_at - now))

    def succeeded(self, number: int) -> None:
        """Record the answer of a try."""
        each = self._end(number)
        self._shared.addresses.answered(each.address)
        self._shared.latencies.observe(self._method.rpc, self._size, self._shared.clock() - each.begun)
        self._shared.budget.earn()
        if self._shared.throttles:
            self._shared.throttles[each.address].accepted()

    def failed(self, number: int, fault: Fault) -> bool:
        """Record the failure of a try.

        Returns:
            True if the call has failed with it; False: it goes on.
        """
        each = self._end(number)
        if fault.blames_the_address:
            self._shared.addresses.eject(each.address, fault.message)
            self._failed.add(each.address)
            missing = self._shared.missing
            if missing and fault.kind is FaultKind.UNREACHED:
                missing.failed(each.address)
            if fault.leaves_open and not self._method.is_repeatable:
                return True
            return not self._send_elsewhere(fault) and not self._tries
        if fault.kind is FaultKind.LATE:
            return not self._tries
        self._shared.addresses.answered(each.address)
        if fault.kind is FaultKind.IDLE:
            self._breaks += 1
            self._send_at = self._shared.clock()
            return self._breaks >= _MAX_BREAKS
        is_throttled = fault.kind is FaultKind.OVERLOADED and bool(self._shared.throttles)
        if is_throttled:
            self._shared.throttles[each.address].refused(each.shape, fault.delay)
        if fault.kind in (FaultKind.OVERLOADED, FaultKind.LIMITED):
            return not self._send_later(fault.delay, is_throttled=is_throttled) and not self._tries
        return True

    def close(self) -> None:
        """Forget the tries under way; the client has cancelled them."""
        for number in list(self._tries):
            self._end(number)

    def _begin(self, now: float) -> list[tuple[int, int]]:
        """Begin a try where it has a chance; return its number and that of its address."""
        shape = CallShape(size=self._size, seconds=self._deadline - now)
        waits = self._shared.waits(shape)
        self._send_at = None
        if waits and not self._shared.addresses.has_other(waits.keys() | self._used()):
            self._hold_back(shape, waits)
            return []
        address = self._shared.addresses.begin(avoided=self._failed | self._used() | waits.keys())
        if self._hedges and len(self._shared.addresses) > 1:
            self._hedge_at = now + self._patience(now)
        number = next(self._numbers)
        self._tries[number] = _Try(address, now, shape)
        return [(number, address)]

    def _hold_back(self, shape: CallShape, waits: dict[int, float]) -> None:
        """Send nothing now. Tries under way continue; a call without tries counts as refused."""
        if self._tries:
            return
        address = min(waits, key=lambda each: waits[each])
        self._shared.throttles[address].held_back(shape)
        if not self._send_later(waits[address], is_throttled=True):
            message = "not sent: the server lately refused such calls for too much work"
            raise OverloadedError(message, code=StatusCode.RESOURCE_EXHAUSTED, retry_after=waits[address])

    def _end(self, number: int) -> _Try:
        each = self._tries.pop(number)
        self._shared.addresses.end(each.address)
        return each

    def _patience(self, now: float) -> float:
        """Return the seconds that a try may take before the call is hedged, at most half of the time left.

        A server may be alive and yet never answer this call: if nothing is known, half of the time is enough.
        """
        limit = self._shared.latencies.limit(self._method.rpc, self._size)
        half = (self._deadline - now) / 2
        return half if limit is None else min(limit, half)

    def _hedge(self, now: float) -> None:
        """Send the call to another address as well, once, if the budget allows it; else look again later."""
        if self._send_at is None and self._shared.addresses.has_other(self._used()) and self._shared.budget.spend():
            self._hedges, self._hedge_at, self._send_at = 0, math.inf, now
        else:
            self._hedge_at = now + max(_HEDGE_SECONDS, self._patience(now))

    def _used(self) -> set[int]:
        return {each.address for each in self._tries.values()}

    def _send_elsewhere(self, fault: Fault) -> bool:
        """Plan another try after a failure of the address; return whether there is one."""
        self._breaks += fault.kind is FaultKind.BROKEN
        if self._breaks >= _MAX_BREAKS:
            return False
        now = self._shared.clock()
        if self._shared.addresses.has_other(self._failed | self._used()):
            self._send_at = now
        elif not self._tries:
            self._failed.clear()
            if not self._shared.budget.spend():
                self._backoff = _LONGEST_BACKOFF
            self._send_at = now + self._backoff * (0.5 + self._shared.random())
            self._backoff = min(2 * self._backoff, _LONGEST_BACKOFF)
        missing = self._shared.missing
        last = min(self._deadline, self._begun + missing.patience()) if missing else self._deadline
        return self._send_at is not None and self._send_at < last

    def _send_later(self, delay: float, *, is_throttled: bool) -> bool:
        """Plan another try after the delay that a server asked for; return whether there is one.

        Args:
            delay: Seconds.
            is_throttled: True if the client limits such calls to what the servers accept, so that waiting costs
                them nothing.
        """
        self._overloads += 1
        if not is_throttled and not (self._shared.budget.spend() and self._overloads < _MAX_OVERLOADS):
            return False
        # Estimates may be too small; a call that is refused again and again comes back less and less often.
        least = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(self._overloads - 2, 16))
        # Never sooner than asked; spread, so that those refused together do not return together.
        at = self._shared.clock() + max(delay, least) * (1 + 0.25 * self._shared.random())
        if at >= self._deadline:
            return False
        self._send_at = at
        return True
