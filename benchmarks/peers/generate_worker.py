"""Process of a peer: reads a workload from each line of standard input, answers with times and target ids.

It imports nothing but transformers and the peer, whose environment lacks the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import torch

from benchmarks.engines.workload import Workload
from benchmarks.peers.generate_engine import LOADERS, Generate


def main() -> None:
    """Load the model, exported before if need be, and answer workloads until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=LOADERS)
    parser.add_argument("directory", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("precision", choices=["float32", "int8"])
    parser.add_argument("threads", type=int)
    arguments = parser.parse_args()
    # Exporters print.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(arguments.threads)
    load = LOADERS[arguments.peer]
    model = Generate(load(arguments.directory, arguments.scratch, arguments.precision, arguments.threads))
    for line in sys.stdin:
        workload = Workload(**json.loads(line))
        found = [model.translate(batch, workload) for batch in workload.batches]
        target_ids = [ids for translated in found for ids in translated.target_ids]
        answers.write(json.dumps({"seconds": sum(one.seconds for one in found), "target_ids": target_ids}) + "\n")


if __name__ == "__main__":
    main()
