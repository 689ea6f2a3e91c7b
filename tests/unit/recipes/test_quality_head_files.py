from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path

import pytest
from fit_quality_head import main, measure
from quality_head_files import add_head
from quality_head_fit import agreement

from xuanzang.model.data.corpus import Pair
from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.bundles.repository import load_bundle

HEAD = QualityHead(
    features=(Feature(name="min_score", mean=-1.0, deviation=0.5, weight=2.0, square_weight=0.0),),
    intercept=0.25,
    limits=FlagLimits(min_token_ratio=0.5, max_token_ratio=2.0, max_low_attention_share=0.4),
)
REPORTS = {"<others>": agreement([0.9, 0.2, 0.7], [-0.1, -2.0, -0.3], [True, False, True])}


def digests(bundle: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in bundle.iterdir()}


@pytest.fixture
def bundle(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models")) / "tiny" / "1"


def test_a_bundle_with_a_new_head_is_sound_and_keeps_its_other_files(bundle: Path) -> None:
    before = digests(bundle)
    add_head(bundle, HEAD, REPORTS, min_chrf=45, fitted=100)
    after = digests(bundle)
    assert load_bundle(bundle).quality_head == HEAD
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"manifest.json", "quality.json", "MODEL_CARD.md"}
    add_head(bundle, HEAD, REPORTS, min_chrf=45, fitted=100)
    assert digests(bundle) == after


def test_a_head_is_fitted_on_the_search_of_the_server_and_then_measured(
    bundle: Path, toy_pairs: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [measured] = asyncio.run(measure(bundle, [[Pair(*pair) for pair in toy_pairs[:120]]]))
    assert len(measured) == 120
    # Weights that are random have no right translations, and some that are empty; of every second pair of each half
    # the reference is their own.
    references = [(number % 4 < 2 and pair.searched.target) or "#" for number, pair in enumerate(measured)]
    mixed = [f"{pair.searched.source}\t{text}\n" for pair, text in zip(measured, references, strict=True)]
    file, others = tmp_path / "pairs.tsv", tmp_path / "others.tsv"
    file.write_text("".join(mixed[:80]), encoding="utf-8")
    others.write_text("".join(mixed[80:]), encoding="utf-8")
    assert load_bundle(bundle).quality_head is None
    assert main([str(bundle), "--pairs", str(file), "--picture", str(tmp_path / "curves.svg")]) == 0
    assert "| other half of the pairs | 40 |" in capsys.readouterr().out
    head = load_bundle(bundle).quality_head
    assert head
    assert main([str(bundle), "--test", f"others={others}"]) == 0
    assert "| others | 40 |" in capsys.readouterr().out
    assert load_bundle(bundle).quality_head == head


def test_the_command_says_what_it_cannot_use(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(bundle), "--pairs", str(tmp_path / "missing.tsv")]) == 1
    assert "missing.tsv" in capsys.readouterr().err
    (file := tmp_path / "empty.tsv").write_text("a\t\n", encoding="utf-8")
    assert main([str(bundle), "--pairs", str(file)]) == 1
    assert "has no pairs" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([str(bundle)])
    assert ended.value.code == 2
