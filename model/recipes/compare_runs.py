"""Print the validations of training runs side by side: tokens, CPU time, loss, and the loss of each domain."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.dataset import PreparedSplit
from xuanzang.model.data.metadata import read_metadata

Row = dict[str, Any]
"""A line of `validations.jsonl`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read and print.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 2 for wrong flags or files.
    """
    flags = _parser().parse_args(arguments)
    try:
        domains = tomllib.loads(flags.groups.read_text(encoding="utf-8")) if flags.groups else {}
        tokens = held_out_tokens(flags.data)
        print(f"| run | million target tokens | CPU s | loss |{''.join(f' {name} |' for name in domains)}")
        print("|---" * (4 + len(domains)) + "|")
        for run in flags.runs:
            for line in (run / "validations.jsonl").read_text(encoding="utf-8").splitlines():
                print(as_markdown(run.name, json.loads(line), domains, tokens))
    except (OSError, ValueError, KeyError, CorpusError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    return 0


def held_out_tokens(data: Path) -> dict[str, int]:
    """Return the target tokens of each corpus that validation pairs were cut from.

    Raises:
        CorpusError: The folder holds no prepared data, or none whose validation pairs were cut from its files.
    """
    corpora, split = read_metadata(data).corpora, PreparedSplit(data, "valid")
    if split.corpus_ids is None:
        raise CorpusError(f"the validation pairs of {data} were not cut from its files: prepare with --valid-share")
    tokens = np.bincount(split.corpus_ids, weights=split.lengths[:, 1], minlength=len(corpora))
    return {name: int(count) for name, count in zip(corpora, tokens, strict=True) if count}


def as_markdown(run: str, row: Row, domains: Mapping[str, Sequence[str]], tokens: Mapping[str, int]) -> str:
    """Return a row of the table.

    Args:
        tokens: Target tokens of each corpus, the weights of a domain's mean loss.
    """
    cells = [run, f"{row['target_tokens'] / 1e6:.2f}", str(row["cpu_seconds"]), f"{row['loss']:.3f}"]
    for corpora in domains.values():
        counted = {name: tokens[name] for name in corpora if name in row["losses"]}
        nats = sum(row["losses"][name] * count for name, count in counted.items())
        cells.append(f"{nats / sum(counted.values()):.3f}" if counted else "")
    return f"| {' | '.join(cells)} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder that `prepare --valid-share` wrote")
    parser.add_argument("runs", type=Path, nargs="+", help="run folders that were trained on it")
    parser.add_argument("--groups", type=Path, help="TOML file of domains and their corpora")
    return parser


if __name__ == "__main__":
    sys.exit(main())
