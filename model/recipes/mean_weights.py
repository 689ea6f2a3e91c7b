"""Write the weighted mean of checkpoints that were trained from one another.

    python model/recipes/mean_weights.py MEAN zh-en-3=1 runs/zh-en/best=3

Shares are of their sum: here a quarter and three quarters. Everything but the weights is that of the last checkpoint.
Source: Wortsman et al. 2022, arXiv 2203.05482.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from xuanzang.model.checkpoint import load_checkpoint, save_checkpoint, start_from
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.stored_checkpoint import CheckpointError


@torch.no_grad()
def write_mean(output: Path, checkpoints: Sequence[tuple[Path, float]]) -> None:
    """Write the mean.

    Args:
        output: Folder to write.
        checkpoints: Folders with their shares, at least one above 0.

    Raises:
        CheckpointError: A checkpoint cannot be read, or they differ in shape or tokenisers.
    """
    last = load_checkpoint(checkpoints[-1][0])
    total = sum(share for _, share in checkpoints)
    mean = {name: torch.zeros_like(parameter) for name, parameter in last.model.named_parameters()}
    for folder, share in checkpoints:
        model = Transformer(last.model.config)
        start_from(model, folder, last.folder)
        for name, parameter in model.named_parameters():
            mean[name] += parameter * (share / total)
    facts = last.training | {"mean_of": {folder.name: share / total for folder, share in checkpoints}}
    save_checkpoint(output, mean, last.model.config, last.folder, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the mean that the flags ask for.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 2 for wrong flags or checkpoints.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("checkpoints", nargs="+", type=_shared, metavar="CHECKPOINT=SHARE")
    flags = parser.parse_args(arguments)
    try:
        write_mean(flags.output, flags.checkpoints)
    except (CheckpointError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _shared(text: str) -> tuple[Path, float]:
    folder, _, share = text.rpartition("=")
    try:
        value = float(share)
    except ValueError:
        value = 0.0
    if not folder or not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected CHECKPOINT=SHARE with a share above 0, not {text!r}")
    return Path(folder), value


if __name__ == "__main__":
    sys.exit(main())
