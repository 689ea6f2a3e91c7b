"""The script of the init container, run on the bundles of this repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import manifests
import pytest

from xuanzang.server.bundles.repository import find_bundles, load_bundle

FOLDER = manifests.COMPONENTS / "models-from-volume"
MODELS = manifests.ROOT / "server" / "models"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Return a volume with the bundles of this repository, and a version that no list pins."""
    folder = tmp_path / "volume"
    shutil.copytree(MODELS, folder)
    model = pinned()[0].parent.parent
    shutil.copytree(folder / pinned()[0].parent, folder / model / "999")
    return folder


def pinned() -> list[Path]:
    lines = (FOLDER / "bundles.sha256").read_text(encoding="utf-8").splitlines()
    return [Path(line.split()[1]) for line in lines]


def copy(volume: Path, *, pins: Path = FOLDER / "bundles.sha256") -> tuple[int, Path]:
    target = volume.parent / "models"
    command = ["sh", str(FOLDER / "copy-bundles.sh"), str(pins), str(volume), str(target)]
    return subprocess.run(command, capture_output=True, check=False).returncode, target


def test_pinned_bundles_are_copied_and_can_be_loaded(volume: Path) -> None:
    status, models = copy(volume)
    # After a new export: (cd server/models && sha256sum */*/manifest.json)
    assert status == 0
    assert [bundle.relative_to(models) for bundle in find_bundles(models)] == [manifest.parent for manifest in pinned()]
    for bundle in find_bundles(models):
        load_bundle(bundle)


def test_another_manifest_than_the_pinned_one_is_refused(volume: Path) -> None:
    manifest = volume / pinned()[0]
    manifest.write_text(manifest.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert copy(volume)[0] != 0


def test_a_bundle_that_the_volume_lacks_is_refused(volume: Path) -> None:
    shutil.rmtree(volume / pinned()[0].parent)
    assert copy(volume)[0] != 0


@pytest.mark.parametrize("content", ["", "not a digest  zh-en/2/manifest.json\n"])
def test_a_list_without_digests_is_refused(volume: Path, tmp_path: Path, content: str) -> None:
    pins = tmp_path / "pins"
    pins.write_text(content, encoding="utf-8")
    assert copy(volume, pins=pins)[0] != 0
