"""A world of calls, whose clock stands until a test moves it."""

from __future__ import annotations

import random
from collections.abc import Callable

from xuanzang.client._reliability.addresses import Addresses
from xuanzang.client._reliability.plan import CallPlan, Shared
from xuanzang.client._reliability.throttle import Throttle
from xuanzang.client._reliability.tries import MIN_SAMPLES, Method

READ: Method[object, object] = Method("TranslateText")


class World:
    """What calls share; random numbers are those of a seed, or always the same draw."""

    def __init__(
        self, addresses: int = 2, *, throttled: bool = False, draw: float = 0.5, seed: int | None = None
    ) -> None:
        self.now = 1000.0
        self.random: Callable[[], float] = (lambda: draw) if seed is None else random.Random(seed).random
        self.throttles = [Throttle(self.clock) for _ in range(addresses if throttled else 0)]
        names = [f"address {number}" for number in range(addresses)]
        self.addresses = Addresses(names, clock=self.clock, random=self.random)
        self.shared = Shared(addresses=self.addresses, clock=self.clock, random=self.random, throttles=self.throttles)

    def clock(self) -> float:
        return self.now

    def knows(self, seconds: float, *methods: Method[object, object]) -> World:
        """Let requests of every size have this latency."""
        for method in methods:
            for size in range(40):
                for _ in range(MIN_SAMPLES):
                    self.shared.latencies.observe(method.rpc, 2**size, seconds)
        return self

    def plan(self, timeout: float = 60.0, method: Method[object, object] = READ) -> CallPlan:
        return CallPlan(self.shared, method, deadline=self.now + timeout, size=100)
