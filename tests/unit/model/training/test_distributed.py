from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from xuanzang.model.training.settings import TrainingSettings
from xuanzang.model.training.trainer import Trainer

TRAIN = """
import os, sys
from xuanzang.model.__main__ import main
status = main(["train", *sys.argv[1:]])
names = [open(f"/proc/self/task/{each}/comm").read().strip() for each in os.listdir("/proc/self/task")]
sys.exit(status or " ".join(name for name in names if "gloo" in name) or 0)
"""
"""Trains, and fails if threads of the process group outlive it, which can abort the interpreter at its end."""


@pytest.mark.slow
def test_two_processes_train_as_one_that_accumulates_two_batches(settings: TrainingSettings, tmp_path: Path) -> None:
    settings = settings.model_copy(update={"dropout": 0.0, "validate_every": 3, "max_steps": 5})
    single = settings.model_copy(update={"output": tmp_path / "single", "accumulate": 2})
    Trainer(single).run()
    flags = ["--preset", "tiny", "--batch-tokens", "256", "--no-bf16", "--max-steps", "5", "--warmup-steps", "2"]
    flags += ["--validate-every", "3", "--dropout", "0", "--device", "cpu", "--threads", "1"]
    (tmp_path / "train.py").write_text(TRAIN)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(tmp_path / "train.py")]
    finished = subprocess.run(
        [sys.executable, *command, "--data", str(settings.data), "--output", str(tmp_path / "double"), *flags],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,  # of a busy machine
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    for name in ("last/model", "last/average", "best/model"):
        one, two = (load_file(tmp_path / run / f"{name}.safetensors") for run in ("single", "double"))
        assert one.keys() == two.keys()
        for key, tensor in one.items():
            torch.testing.assert_close(tensor, two[key], atol=1e-4, rtol=1e-3)
    assert len((tmp_path / "double" / "validations.jsonl").read_text().splitlines()) == 2
