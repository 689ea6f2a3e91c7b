"""Models on demand under Zipf traffic: share of requests that waited for a load, latencies, and memory.

    python -m benchmarks.on_demand --models 100 --memory 600MB --seconds 60

A server has copies of the bundled zh-en under other names, as hard links. Callers in a closed loop send one sentence a
call and choose its model by Zipf's law. Prints the share of calls that waited, latencies, loads and evictions, the
processor time of the server and the share of the machine that other programs had meanwhile, and the largest resident
memory, next to that before the first load. A model has its trial in another process at its first
load.
"""

from __future__ import annotations

import argparse
import random
import re
import threading
import time
import urllib.request
from collections.abc import Sequence

import numpy as np

from benchmarks.cost_curves import repository
from benchmarks.harness.bundled_model import ServedModel, our_server, sentences, single_sentences
from benchmarks.harness.processes import ServerProcess, cpu_seconds, cpu_times, free_address, share_of_others
from xuanzang.client import TranslationClient

_SAMPLE_SECONDS = 0.1


def metric(address: str, name: str) -> float:
    """Return the sum of the series of a metric."""
    with urllib.request.urlopen(f"http://{address}/metrics") as response:
        text = response.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def calls(server: ServerProcess, names: Sequence[str], arguments: argparse.Namespace) -> tuple[list[float], float]:
    """Return the seconds of each call, and the largest resident memory meanwhile, in MB."""
    texts, seconds, peak = single_sentences(sentences()), list[float](), server.resident_megabytes()
    weights = [1 / rank**arguments.exponent for rank in range(1, len(names) + 1)]
    end = time.monotonic() + arguments.seconds

    def call(number: int) -> None:
        choice = random.Random(number)
        with TranslationClient(server.address, timeout=30) as client:
            while (began := time.monotonic()) < end:
                [name] = choice.choices(names, weights)
                client.translate_one(choice.choice(texts), model=name)
                seconds.append(time.monotonic() - began)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(arguments.callers)]
    for each in callers:
        each.start()
    while any(each.is_alive() for each in callers):
        time.sleep(_SAMPLE_SECONDS)
        peak = max(peak, server.resident_megabytes())
    return seconds, peak


def main() -> None:
    """Start the server, call it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=100, help="copies of the bundle")
    parser.add_argument("--memory", default="600MB", help="--model-memory of the server")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--exponent", type=float, default=1.0, help="exponent of Zipf's law")
    arguments = parser.parse_args()
    names = [f"copy{number}" for number in range(arguments.models)]
    with repository(arguments.models) as folder:
        model = ServedModel(bundle=folder / names[0] / "1", texts=sentences(), asked_for=names[-1])
        metrics = free_address()
        flags = ("--no-detection", "--model-memory", arguments.memory, "--metrics-address", metrics)
        with our_server(model, *flags) as server:
            idle, before, used = server.resident_megabytes(), cpu_times(), cpu_seconds(server.pid)
            seconds, peak = calls(server, names, arguments)
            used = cpu_seconds(server.pid) - used
            others = share_of_others(before, cpu_times()) - used / (cpu_times().total - before.total)
            waited = metric(metrics, "nmt_model_load_wait_seconds_count")
            loads, evictions = (metric(metrics, f"nmt_model_{name}_total") for name in ("loads", "evictions"))
            load_seconds = metric(metrics, "nmt_model_load_seconds_sum") / max(loads, 1)
            wait_seconds = metric(metrics, "nmt_model_load_wait_seconds_sum") / max(waited, 1)
            held = metric(metrics, "nmt_model_memory_bytes") / 1e6
    p50, p95, p99 = np.percentile(seconds, (50, 95, 99))
    print(f"calls {len(seconds)}, waited for a load {waited / len(seconds):.1%}")
    print(f"seconds of a call: p50 {p50:.3f}, p95 {p95:.3f}, p99 {p99:.3f}, maximum {max(seconds):.3f}")
    print(f"loads {loads:.0f}, evictions {evictions:.0f}, a load {load_seconds:.3f} s, a wait {wait_seconds:.3f} s")
    print(f"processor: {used:.1f} s, {1000 * used / max(loads, 1):.0f} ms for each load; other programs {others:.0%}")
    print(f"MB: idle {idle:.0f}, maximum {peak:.0f}, counted {held:.0f} of {arguments.memory}")


if __name__ == "__main__":
    main()
