"""The metadata of the packages."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rooms import PACKAGES, ROOMS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / room / "README.md" for room in ROOMS)]


def project(room: str) -> dict[str, Any]:
    metadata: dict[str, Any] = tomllib.loads((ROOT / room / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return metadata


@pytest.mark.parametrize("room", ROOMS)
def test_a_package_has_all_its_metadata(room: str) -> None:
    metadata = project(room)
    for key in ("description", "readme", "license", "license-files", "authors", "keywords", "classifiers"):
        assert metadata[key], key
    assert metadata["name"] == ("xuanzang" if room == "client" else f"xuanzang-{room}")
    assert (ROOT / room / metadata["readme"]).read_text(encoding="utf-8").startswith(f"# {metadata['name']}\n")
    assert metadata["classifiers"] == sorted(metadata["classifiers"])
    assert "Typing :: Typed" in metadata["classifiers"]


@pytest.mark.parametrize("room", ROOMS)
def test_the_pythons_that_a_package_names_are_those_that_it_is_tested_with(room: str) -> None:
    script = (ROOT / ".ci" / "pythons").read_text(encoding="utf-8")
    tested = re.findall(r"^promised=\((.*)\)$", script, re.MULTILINE)[0].split()
    named = {each.rpartition(" ")[2] for each in project(room)["classifiers"] if re.search(r":: 3\.\d+$", each)}
    # All else runs with 3.11 only, in `make test`.
    assert named == (set(tested) if re.search(rf"-e '?{room}\b", script) else {"3.11"})


@pytest.mark.parametrize("room", ROOMS)
def test_a_package_carries_the_licence_of_the_repository(room: str) -> None:
    # A copy: no file outside of its folder can go into a wheel.
    assert project(room)["license-files"] == ["LICENSE"]
    assert (ROOT / room / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_all_packages_share_one_version_and_ask_each_other_for_it() -> None:
    versions = {project(room)["version"] for room in ROOMS}
    assert len(versions) == 1
    siblings = [need for room in ROOMS for need in project(room).get("dependencies", []) if "xuanzang" in need]
    assert {need.partition("==")[2] for need in siblings} == versions


def test_every_place_that_states_the_version_states_the_same() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "release", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    # Each package, what it asks siblings for, images and pages.
    assert int(re.findall(r"all (\d+) places", done.stdout)[0]) >= 38


def test_all_sources_are_valid_in_the_lowest_python_that_is_promised() -> None:
    assert {project(room)["requires-python"] for room in ROOMS} == {">=3.11"}
    for room in ROOMS:
        for path in (ROOT / room / "src").rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 11))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_installs_from_an_index_that_lacks_the_packages(path: Path) -> None:
    for line in re.findall(r"pip install[^\n`]*", path.read_text(encoding="utf-8")):
        assert "xuanzang" not in line or "--find-links" in line or ".whl" in line, line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_extras_that_there_are(path: Path) -> None:
    for room, extras in re.findall(rf"\b({'|'.join(ROOMS)})\[([a-z,]+)\]", path.read_text(encoding="utf-8")):
        assert set(extras.split(",")) <= set(project(room).get("optional-dependencies", ())), room


@pytest.mark.parametrize("room", ROOMS)
def test_no_message_installs_from_an_index_that_lacks_the_packages(room: str) -> None:
    for path in (ROOT / room / "src").rglob("*.py"):
        assert not re.search(r"pip install[^\n]*xuanzang", path.read_text(encoding="utf-8")), path


def test_the_list_of_files_of_a_new_option_names_files_that_are_there() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Adding a decoding option")[2]
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    paths = re.findall(r"`([a-z_]+/[\w/.]*)`", "\n".join(rows))
    assert len(paths) > 25
    folders = {package: ROOT / room / "src/xuanzang" for room, packages in PACKAGES.items() for package in packages}
    for path in paths:
        assert (ROOT / path).exists() or (folders[path.partition("/")[0]] / path).exists(), path


def test_the_wheel_of_the_server_holds_the_bundled_models(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", given.update)
    monkeypatch.chdir(ROOT / "server")
    runpy.run_path("setup.py")
    held = {Path(path) for _, paths in given["data_files"] for path in paths}
    models = Path("models")
    assert held == {path for path in models.rglob("*") if path.is_file()}
    assert {Path(place) / Path(path).name for place, paths in given["data_files"] for path in paths} == {
        Path("share/xuanzang") / path for path in held
    }
