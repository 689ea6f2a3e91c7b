"""Pools of threads that say so when the server stops."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from typing_extensions import override

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.hardware import give_way

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Threads(ThreadPoolExecutor):
    """Threads that give way to the workers and to the event loop; once shut down, they refuse work as a drain does."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name, initializer=give_way)
        self._refuses = False

    @override
    def submit(
        self, work: Callable[Parameters, Result], /, *arguments: Parameters.args, **keywords: Parameters.kwargs
    ) -> Future[Result]:
        """Run work in a thread; DrainingError: the pool is shut down."""
        if self._refuses:
            raise DrainingError("the server stopped before the translation was begun")
        return super().submit(work, *arguments, **keywords)

    @override
    def shutdown(self, *arguments: Any, **keywords: Any) -> None:
        self._refuses = True
        super().shutdown(*arguments, **keywords)
