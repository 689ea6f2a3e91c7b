"""The exporter where only onnx and numpy are installed, as `xuanzang pull firefox:zh-en` needs it."""

from __future__ import annotations

import subprocess
import sys

HIDE = "import sys; sys.modules.update(dict.fromkeys(('torch', 'xuanzang.model', 'safetensors', 'sacrebleu', 'tqdm')));"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HIDE + code], capture_output=True, text=True, check=False)


def test_students_become_bundles_without_torch_and_the_network() -> None:
    assert run("from xuanzang.export.students import build_bundle").returncode == 0


def test_the_command_for_checkpoints_says_which_packages_it_lacks() -> None:
    done = run("from xuanzang.export.__main__ import main; sys.exit(main(['export', '--help']))")
    assert done.returncode == 1
    assert "xuanzang.model, safetensors, sacrebleu, tqdm" in done.stderr
    assert "xuanzang-export" in done.stderr
    assert "Traceback" not in done.stderr
