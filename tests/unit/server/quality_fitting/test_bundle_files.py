from __future__ import annotations

import hashlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.commands.quality import run_quality_command
from xuanzang.server.quality_fitting.bundle_files import add_head
from xuanzang.server.quality_fitting.calibration import agreement
from xuanzang.server.quality_fitting.measurement import read_pairs
from xuanzang.server.quality_fitting.picture import reliability_picture

HEAD = QualityHead(
    features=(Feature(name="min_score", mean=-1.0, deviation=0.5, weight=2.0, square_weight=0.0),),
    intercept=0.25,
    limits=FlagLimits(min_token_ratio=0.5, max_token_ratio=2.0, max_low_attention_share=0.4),
)
REPORTS = {"<others>": agreement([0.9, 0.2, 0.7], [-0.1, -2.0, -0.3], [True, False, True])}


def digests(bundle: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in bundle.iterdir()}


def test_a_bundle_with_a_new_head_is_sound_and_keeps_its_other_files(repository: Path) -> None:
    bundle = repository / "small" / "1"
    before = digests(bundle)
    add_head(bundle, HEAD, REPORTS, min_chrf=45, fitted=100)
    after = digests(bundle)
    assert load_bundle(bundle).quality_head == HEAD
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"manifest.json", "quality.json", "MODEL_CARD.md"}
    add_head(bundle, HEAD, REPORTS, min_chrf=45, fitted=100)
    assert digests(bundle) == after


def test_the_picture_is_well_formed_and_has_a_point_for_each_bin() -> None:
    picture = ET.fromstring(reliability_picture(REPORTS))
    points = [element for element in picture.iter() if element.tag.endswith("circle")]
    assert len(points) == len(REPORTS["<others>"].curve)


def test_pairs_without_a_tab_are_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("a\tb\tc\n\tb\nno tab\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3 has no tab"):
        read_pairs(file)
    file.write_text("a\tb\tc\n\tb\n", encoding="utf-8")
    assert read_pairs(file) == [("a", "b")]


def test_the_command_says_what_it_cannot_use(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = str(repository / "small" / "1")
    assert run_quality_command([bundle, "--pairs", str(tmp_path / "missing.tsv")]) == 1
    assert "missing.tsv" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        run_quality_command([bundle])
    assert ended.value.code == 2
