"""Goodput under overload with grpc.aio's own server in the place of our listener, which uses private names of grpc.

    python -m benchmarks.stock_grpc FILE-WITH-A-SENTENCE-A-LINE --rounds 5 --seconds 20

Both servers have the same entry, services and engine. In each round each is put under the same overloads; the order is
drawn. Prints the goodput of both, and whether private names are worth their price: they are if the median of the ratios
of any overload is below 0.9. The machine must be quiet: other work takes more from one server than from the other.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import grpc

from benchmarks import overload
from benchmarks.harness.bundled_model import ServedModel, newest_bundle, our_server
from xuanzang.server.__main__ import main as serve
from xuanzang.server.rpc import server
from xuanzang.server.rpc.errors import Refusal

AS_SERVER: Final = "--as-server"
WORTH = 0.9
"""Share of our goodput below which grpc.aio's server is too slow."""
PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "ours": ("-m", "xuanzang.server"),
    "stock": ("-m", "benchmarks.stock_grpc", AS_SERVER),
}


class StockListener:
    """grpc.aio's own server, which begins a task for each RPC and asks `begin` in it."""

    def __init__(self, begin: Callable[[str, Any], Any], options: Sequence[tuple[str, Any]]) -> None:
        """Make a server as `grpc_private.Listener` does."""
        self._begin, self._server = begin, grpc.aio.server(options=tuple(options))
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Never done: grpc.aio does not say when its serving loop ends."""

    def __getattr__(self, name: str) -> Any:
        """Return what grpc.aio's server has."""
        return getattr(self._server, name)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Serve methods as receivers of streams, so that the messages of a refused RPC are not read."""
        made = {name: self._handler(f"/{service}/{name}", each) for name, each in handlers.items()}
        self._server.add_registered_method_handlers(service, made)

    def _handler(self, path: str, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        async def answer(_messages: object, context: Any) -> Any:
            begun = self._begin(path, context)
            if isinstance(begun, Refusal):
                await context.abort(begun.code, begun.message, begun.trailers)
            return await begun.function(begun.argument, context)

        def encode(message: Any) -> bytes:
            return message if isinstance(message, bytes) else handler.response_serializer(message)

        kind = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        made: grpc.RpcMethodHandler[Any, Any] = kind(answer, response_serializer=encode)
        return made


def goodputs(name: str, model: ServedModel, arguments: argparse.Namespace) -> list[overload.Outcome]:
    """Start a server, and put each overload on it."""
    print(name, flush=True)
    with our_server(model, program=PROGRAMS[name]) as started:
        return asyncio.run(overload.measure(started.address, started.pid, model.texts, arguments))


def main() -> None:
    """Compare, or serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="file with a sentence a line")
    parser.add_argument("--multiples", type=float, nargs="+", default=[5, 13])
    parser.add_argument("--sentences", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--deadlines", type=float, nargs="+", default=[2, 5, 10], help="drawn by chance, seconds")
    parser.add_argument("--seconds", type=float, default=20, help="of each loop")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args(namespace=argparse.Namespace(callers="light"))
    lines = arguments.texts.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if overload.LENGTHS[0] <= len(line) <= overload.LENGTHS[1]]
    model, rounds = ServedModel(bundle=newest_bundle(), texts=texts), []
    for _ in range(arguments.rounds):
        names = random.sample(list(PROGRAMS), len(PROGRAMS))
        rounds.append({name: goodputs(name, model, arguments) for name in names})
    worst = 1.0
    for index, first in enumerate(rounds[0]["ours"]):
        ours, stock = ([each[name][index].goodput for each in rounds] for name in ("ours", "stock"))
        ratio = statistics.median(one / other for one, other in zip(stock, ours, strict=True))
        worst = min(worst, ratio)
        load = first.overload
        shown = ", ".join(f"{one:.2f}/{other:.2f}" for one, other in zip(stock, ours, strict=True))
        print(f"{load.multiple:g} x, {load.sentences} sentences: stock/ours {shown}; median ratio {ratio:.2f}")
    print("private names stay" if worst < WORTH else "private names can go", f"(worst median {worst:.2f})")


if __name__ == "__main__":
    if AS_SERVER in sys.argv:
        sys.argv.remove(AS_SERVER)
        with mock.patch.object(server, "Listener", StockListener):
            raise SystemExit(serve())
    else:
        main()
