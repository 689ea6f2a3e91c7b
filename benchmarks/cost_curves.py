"""Growth of cost with work: curves of one server, and their exponents.

    python -m benchmarks.cost_curves                    # all, some minutes
    python -m benchmarks.cost_curves --curves keys beam # some of them

Prints a table for each curve: the processor time of the server's process for a request (or a start, or its memory), at
growing sizes of one thing. The exponent is the slope of the logarithms over the larger half of the sizes: 1 is linear,
0 no growth. Processor time hardly depends on what else the machine does, so a busy machine shows the same slopes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.bundled_model import bundled_model, newest_bundle, our_server
from benchmarks.harness.light_calls import CANCELLED, Ended, LightConnection, body_of, headers_of
from benchmarks.harness.processes import METHOD, ServerProcess, cpu_seconds, cpu_times, share_of_others
from xuanzang.client import TranslationClient
from xuanzang.loadtest.loops import closed_loop
from xuanzang.server.access.keys import change_keys, new_key
from xuanzang.translation.v1 import translation_pb2 as pb

TIMEOUT_SECONDS = 110.0
RESOURCE_EXHAUSTED = 8
MIN_SECONDS = 1.0
"""Processor time of the server for each size, at the least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Costs by size."""

    name: str
    size: str
    cost: str
    points: Sequence[tuple[float, float]]

    @property
    def exponent(self) -> float:
        """Slope of the logarithms of cost over size, in the larger half of the sizes."""
        half = self.points[-max(2, len(self.points) // 2) :]
        xs, ys = [math.log(size) for size, _ in half], [math.log(max(cost, 1e-9)) for _, cost in half]
        x, y = sum(xs) / len(xs), sum(ys) / len(ys)
        return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)

    def lines(self) -> Iterator[str]:
        """Return a table, its exponent above it."""
        yield f"\n{self.name}: exponent {self.exponent:.2f}\n"
        yield f"| {self.size} | {self.cost} |\n|---|---|"
        for size, cost in self.points:
            yield f"| {size:,.0f} | {cost:,.3g} |"


CLAUSES = [text.rstrip("。！？") for text in bundled_model().texts]


def sentence(number: int, characters: int = 16) -> str:
    """Return a sentence of the given characters, each about a piece, unique to that number: clauses of real ones."""
    draw = random.Random(number)
    text = f"{number}、{draw.choice(CLAUSES)}"
    while len(text) < characters:
        text += "，" + draw.choice(CLAUSES)
    return f"{text[: characters - 1]}。"


def request(texts: Sequence[str], **settings: object) -> bytes:
    """Return a request from Chinese to English."""
    languages = pb.TranslationSettings(source_language_code="zh", target_language_code="en", **settings)  # type: ignore[arg-type]
    return body_of(pb.TranslateTextRequest(contents=texts, settings=languages).SerializeToString())


def milliseconds(server: ServerProcess, bodies: Iterator[bytes], *, callers: int = 1, at_least: int = 3) -> float:
    """Return the milliseconds of processor time of the server for a request."""

    async def measure() -> float:
        connections = [await LightConnection.open(server.address) for _ in range(-(-callers // 100))]
        block, turn, done = headers_of(METHOD, TIMEOUT_SECONDS), itertools.cycle(connections), 0
        before = cpu_seconds(server.pid)

        def is_over() -> bool:
            return done >= max(at_least, 2 * callers * (callers > 1)) and cpu_seconds(server.pid) > before + MIN_SECONDS

        async def call(due: float) -> None:
            nonlocal done
            ended, body = Ended(CANCELLED, 0.0, None), next(bodies)
            while ended.code in (CANCELLED, RESOURCE_EXHAUSTED):
                # gRPC turns streams away when more than a thousand come at once, and clients send them again.
                await asyncio.sleep(ended.seconds)
                ended = await next(turn).call(block, body, timeout=TIMEOUT_SECONDS, due=due)
            if ended.code:
                raise RuntimeError(f"status {ended.code}")
            done += 1

        await closed_loop(call, callers=callers, is_over=is_over)
        for connection in connections:
            connection.close()
        return 1e3 * (cpu_seconds(server.pid) - before) / done

    return asyncio.run(measure())


@contextmanager
def started(*flags: str, model: str = "") -> Iterator[ServerProcess]:
    """Start a server, with the bundled models if flags name no others, that admits all callers of this machine."""
    limits = [f"--max-{name}-rpcs=4096" for name in ("concurrent", "address", "caller", "connection")]
    with our_server(replace(bundled_model(), asked_for=model), "--no-detection", *limits, *flags) as server:
        milliseconds(server, (request([sentence(-number)], model=model) for number in itertools.count(1)), callers=32)
        yield server


def sentences() -> Curve:
    """Return the cost of a request by its sentences."""
    numbers = itertools.count()
    with started() as server:
        points = [
            (size, milliseconds(server, (request([sentence(next(numbers)) for _ in range(size)]) for _ in numbers)))
            for size in (1, 4, 16, 64, 256, 1024)
        ]
    return Curve(name="Sentences per request", size="sentences", cost="ms a request", points=points)


def source_length() -> Curve:
    """Return the cost of a sentence by its pieces, with a third as many in its translation.

    Translations of their own length go round in circles where sources are long, which costs second searches.
    """
    numbers = itertools.count()

    def bodies(size: int) -> Iterator[bytes]:
        steps = max(2, size // 3)
        fixed = pb.DecodingOptions(min_target_length=steps - 1, max_target_length=steps, no_repeat_ngram_size=16)
        return (request([sentence(number, size)], options=fixed) for number in numbers)

    with started() as server:
        points = [(size, milliseconds(server, bodies(size))) for size in (10, 20, 40, 80, 160, 320, 500)]
    return Curve(name="Source length", size="characters of a sentence", cost="ms a sentence", points=points)


def beam() -> Curve:
    """Return the cost of a sentence by the hypotheses of its beam."""
    numbers = itertools.count()

    def bodies(size: int) -> Iterator[bytes]:
        return (request([sentence(number)], options=pb.DecodingOptions(beam_size=size)) for number in numbers)

    with started() as server:
        points = [(size, milliseconds(server, bodies(size), callers=16)) for size in (1, 2, 4, 8, 16)]
    return Curve(name="Beam", size="hypotheses", cost="ms a sentence, 16 callers", points=points)


def callers() -> Curve:
    """Return the cost of a sentence by the callers that wait at once."""
    numbers = itertools.count()
    with started() as server:
        points = [
            (count, milliseconds(server, (request([sentence(number)]) for number in numbers), callers=count))
            for count in (1, 8, 64, 250, 1000, 2000)
        ]
    return Curve(name="Callers", size="callers at once", cost="ms a sentence", points=points)


def models() -> Curve:
    """Return the memory of a server by its models, each used once."""
    points = []
    for count in (1, 5, 15, 50):
        with (
            repository(count) as folder,
            started("--models", str(folder), model="copy0") as server,
        ):
            for number in range(count):
                _one(server, request([sentence(number)], model=f"copy{number}"))
            points.append((count, server.resident_megabytes()))
    return Curve(name="Models", size="models loaded", cost="MB resident", points=points)


@contextmanager
def repository(count: int) -> Iterator[Path]:
    """Make a folder of models with the files of the bundled one under other names."""
    bundle = newest_bundle()
    with tempfile.TemporaryDirectory(dir=bundle.parents[3]) as name:
        for number in range(count):
            folder = Path(name) / f"copy{number}" / bundle.name
            folder.mkdir(parents=True)
            for file in bundle.iterdir():
                if file.name != "manifest.json":
                    os.link(file, folder / file.name)
            manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
            manifest["model"] = f"copy{number}"
            (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        yield Path(name)


def glossary() -> Curve:
    """Return the cost of a sentence by the entries of its glossary; none of them matches."""
    numbers = itertools.count()
    points = []
    with tempfile.TemporaryDirectory(dir=newest_bundle().parents[3]) as name:
        folder = Path(name) / "glossaries"
        folder.mkdir()
        for model in newest_bundle().parents[1].iterdir():
            (Path(name) / model.name).symlink_to(model)
        for size in (1, 100, 1000, 10_000):
            rows = "".join(f"词条{number}\tterm {number}\n" for number in range(size))
            head = "# source_language: zh\n# target_language: en\n"
            (folder / f"of{size}.tsv").write_text(head + rows, encoding="utf-8")
        with started("--models", name) as server:
            for size in (1, 100, 1000, 10_000):
                bodies = (request([sentence(number)], glossary=f"of{size}") for number in numbers)
                points.append((size, milliseconds(server, bodies)))
    return Curve(name="Glossary", size="entries", cost="ms a sentence", points=points)


def keys() -> Curve:
    """Return the processor time of the start by the number of API keys; a call costs the same with any."""
    points = []
    for count in (10, 1000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "keys.json"
            key = _write_keys(file, count)
            with our_server(bundled_model(), "--no-detection", "--anonymous", "--keys-file", str(file)) as server:
                start = cpu_seconds(server.pid)
                cost = _keyed_milliseconds(server, key)
                points.append((count, start))
                print(f"  {count:,} keys: start {start:.2f} s of processor time, a keyed call {cost:.2f} ms")
    return Curve(name="Keys", size="API keys", cost="s of processor time to start", points=points)


def _write_keys(file: Path, count: int) -> str:
    """Make keys and return the last."""
    made = [new_key(f"caller{number}") for number in range(count)]
    change_keys(file, lambda _: [entry for _, entry in made])
    return made[-1][0]


def _keyed_milliseconds(server: ServerProcess, key: str, count: int = 100) -> float:
    with TranslationClient(server.address, api_key=key) as client:
        client.translate(["你好。"], source_language="zh", target_language="en", max_target_length=1)
        before = cpu_seconds(server.pid)
        for _ in range(count):
            client.translate(["你好。"], source_language="zh", target_language="en", max_target_length=1, beam_size=1)
    return 1e3 * (cpu_seconds(server.pid) - before) / count


def processes() -> Curve:
    """Return a server's own memory (its proportional set) after load, alone and next to another."""
    numbers = itertools.count()
    points = []
    with ExitStack() as stack:
        servers: list[ServerProcess] = []
        for count in (1, 2):
            servers.append(stack.enter_context(started()))
            for server in servers:
                milliseconds(server, (request([sentence(number)]) for number in numbers), callers=64, at_least=300)
            points.append((count, sum(_proportional_megabytes(server.pid) for server in servers)))
    return Curve(name="Processes", size="servers of one machine", cost="MB of all, shared pages once", points=points)


def _proportional_megabytes(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Pss: +(\d+) kB", rollup, re.MULTILINE)) * 1024 / 1e6


def _one(server: ServerProcess, body: bytes) -> None:
    async def ask() -> int:
        connection = await LightConnection.open(server.address)
        block = headers_of(METHOD, TIMEOUT_SECONDS)
        return (await connection.call(block, body, timeout=TIMEOUT_SECONDS, due=time.perf_counter())).code

    if code := asyncio.run(ask()):
        raise RuntimeError(f"status {code}")


CURVES: dict[str, Callable[[], Curve]] = {
    each.__name__: each for each in (sentences, source_length, beam, callers, models, glossary, keys, processes)
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", nargs="+", choices=CURVES, default=list(CURVES))
    before = cpu_times()
    for name in parser.parse_args().curves:
        print("\n".join(CURVES[name]().lines()), flush=True)
    print(f"\nother programs used {share_of_others(before, cpu_times()):.0%} of the processors")


if __name__ == "__main__":
    main()
