"""Log lines of RPCs that failed, and the reasons that they name."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import NamedTuple

_LOGGER = logging.getLogger(__name__)
_LINES_PER_SECOND = 10


class Reason(NamedTuple):
    """Reason that an RPC was refused, without any text of a caller but a name."""

    word: str
    """One of a few words, such as "fields", "queue", "deadline", "quota" or "places"."""
    fields: tuple[str, ...] = ()
    """Faulty fields of the request, the first of them."""
    model: str = ""
    """Model that is not served, if its name looks like one."""


class RpcLog:
    """Logs RPCs that failed, ten lines a second for each status code, and the number of the others."""

    def __init__(self, what: str = "rpc") -> None:
        """Log nothing yet; what fails is "rpc", or "text" for single texts of a stream."""
        self._what = what
        self._seen: Counter[str] = Counter()
        # Success is counted; log lines for it take a fifth of the event loop's time.
        self.has_successes = _LOGGER.isEnabledFor(logging.DEBUG)
        """True if RPCs that succeed have lines, too."""

    def write(
        self,
        path: str,
        code: str,
        seconds: float,
        *,
        is_check: bool = False,
        request_id: str | None = None,
        reason: Reason | None = None,
    ) -> None:
        """Log the end of an RPC, or of a text; `is_check`: it checks the health of the server, which is done often."""
        level = logging.DEBUG if code == "OK" or is_check else logging.INFO
        if not _LOGGER.isEnabledFor(level) or (level == logging.INFO and not self._has_room(code)):
            return
        facts: dict[str, object] = {"method": path[1:], "code": code, "seconds": round(seconds, 6)}
        if reason is not None:
            facts["reason"] = reason.word
            if reason.fields:
                facts["fields"] = list(reason.fields)
            if reason.model:
                facts["model"] = reason.model
        if request_id is not None:
            facts["request_id"] = request_id
        _LOGGER.log(level, self._what, extra=facts)

    def _has_room(self, code: str) -> bool:
        if not self._seen:
            asyncio.get_running_loop().call_later(1, self._end_second)
        self._seen[code] += 1
        return self._seen[code] <= _LINES_PER_SECOND

    def _end_second(self) -> None:
        for code, number in self._seen.items():
            if number > _LINES_PER_SECOND:
                extra = {"code": code, f"{self._what}s": number - _LINES_PER_SECOND}
                _LOGGER.info(f"more {self._what}s", extra=extra)  # noqa: G004
        self._seen.clear()
