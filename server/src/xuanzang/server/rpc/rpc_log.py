"""The log of RPCs: a line for each that failed, as long as there are few."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import grpc

from xuanzang.server.rpc.errors import Reason
from xuanzang.server.rpc.methods import Method

_LOGGER = logging.getLogger(__name__)

_LINES_PER_SECOND = 10


class RpcLog:
    """Logs RPCs that failed, ten lines a second for each status code, and the number of the others."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def write(
        self,
        method: Method,
        code: grpc.StatusCode,
        seconds: float,
        *,
        request_id: str | None = None,
        reason: Reason | None = None,
    ) -> None:
        """Log the end of an RPC.

        Args:
            method: Method of the RPC.
            code: Its status.
            seconds: Its duration.
            request_id: Its id; None if it has none.
            reason: Why it was refused; None if it was not, or its caller has gone.
        """
        # Success is counted; log lines for it take a fifth of the event loop's time. Health is checked often.
        level = logging.DEBUG if code is grpc.StatusCode.OK or method.is_open else logging.INFO
        if not _LOGGER.isEnabledFor(level) or (level == logging.INFO and not self._has_room(code.name)):
            return
        facts: dict[str, object] = {"method": method.path[1:], "code": code.name, "seconds": round(seconds, 6)}
        if reason is not None:
            facts |= reason.facts()
        if request_id is not None:
            facts["request_id"] = request_id
        _LOGGER.log(level, "rpc", extra=facts)

    def _has_room(self, code: str) -> bool:
        if not self._seen:
            asyncio.get_running_loop().call_later(1, self._end_second)
        self._seen[code] += 1
        return self._seen[code] <= _LINES_PER_SECOND

    def _end_second(self) -> None:
        for code, number in self._seen.items():
            if number > _LINES_PER_SECOND:
                _LOGGER.info("more rpcs", extra={"code": code, "rpcs": number - _LINES_PER_SECOND})
        self._seen.clear()
