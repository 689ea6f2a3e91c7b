"""`buf breaking`: what the protos have said stands in a committed file, and a check that never fails would be none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).with_name("buf")
BASELINE = ROOT / "proto/baseline.binpb"

Edit = Callable[[str], str]


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Edit], subprocess.CompletedProcess[str]]:
    """Return a function that compares a changed copy of the translation service with the baseline."""

    def compare(edit: Edit) -> subprocess.CompletedProcess[str]:
        shutil.copy(ROOT / "buf.yaml", tmp_path)
        shutil.copytree(ROOT / "proto/xuanzang", tmp_path / "proto/xuanzang")
        file = tmp_path / "proto/xuanzang/translation/v1/translation.proto"
        before = file.read_text(encoding="utf-8")
        file.write_text(edit(before), encoding="utf-8")
        return run("breaking", "--against", str(BASELINE), folder=tmp_path)

    return compare


def run(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], cwd=folder, capture_output=True, check=False, encoding="utf-8")


def test_the_baseline_holds_all_that_the_protos_say(tmp_path: Path) -> None:
    built = run("build", "--exclude-source-info", "--output", str(tmp_path / "now.binpb"))
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "now.binpb").read_bytes() == BASELINE.read_bytes(), "make proto adds to the baseline"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bool return_scores = 10;", "bool return_scores = 99;"),
        ("bool return_scores = 10;", "bool scores = 10;"),
        ("bool return_scores = 10;", "string return_scores = 10;"),
        ("bool return_scores = 10;", ""),
        ("  CONTENT_FORMAT_XML = 3;", ""),
        ("rpc DetectLanguage(DetectLanguageRequest)", "rpc DetectLanguage(ListModelsRequest)"),
        ("message DetectedLanguage {", "message FoundLanguage {"),
    ],
    ids=["number", "name", "type", "field", "value", "request", "message"],
)
def test_a_change_that_breaks_a_client_in_use_is_refused(
    changed: Callable[[Edit], subprocess.CompletedProcess[str]], old: str, new: str
) -> None:
    def edit(content: str) -> str:
        assert old in content
        edited = content.replace(old, new)
        # Whoever reads the message meets the new name, so that the protos stay valid.
        return edited.replace("repeated DetectedLanguage", "repeated FoundLanguage") if "Found" in new else edited

    compared = changed(edit)
    assert compared.returncode == 100, compared.stdout + compared.stderr


def test_a_new_field_breaks_nobody(changed: Callable[[Edit], subprocess.CompletedProcess[str]]) -> None:
    compared = changed(
        lambda content: content.replace("bool return_scores = 10;", "bool return_scores = 10; bool x = 99;")
    )
    assert (compared.returncode, compared.stdout) == (0, "")
