"""Building the kernels: with the compilers of this machine, and without one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xuanzang import kernels

PACKAGE = Path(kernels.__file__).parent
SETUP = PACKAGE.parents[2] / "setup.py"
SOURCES = sorted(PACKAGE.glob("*.cc"))
FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi")
CROSS = "aarch64-linux-gnu-g++"
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++", CROSS])
def test_each_compiler_builds_the_library_without_warnings(compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    subprocess.run([compiler, *FLAGS, "-shared", "-fPIC", "-o", tmp_path / "library.so", *SOURCES], check=True)


def test_each_instruction_set_computes_as_the_formulas_say(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    assert run_arithmetic(tmp_path, compiler=("g++",))[-1] == "generic"


def test_neon_computes_as_the_formulas_say(tmp_path: Path) -> None:
    if not shutil.which(CROSS) or not EMULATOR:
        pytest.skip("there is no compiler for ARM, or no emulator")
    assert run_arithmetic(tmp_path, compiler=(CROSS, "-static"), emulator=(EMULATOR,)) == ["generic"]


def run_arithmetic(folder: Path, *, compiler: tuple[str, ...], emulator: tuple[str, ...] = ()) -> list[str]:
    """Build and run arithmetic.cc, and return the instruction sets that it found right."""
    program = folder / "arithmetic"
    sources = (Path(__file__).with_name("arithmetic.cc"), PACKAGE / "simd.cc")
    subprocess.run([*compiler, *FLAGS, "-O0", f"-I{PACKAGE}", "-o", program, *sources], check=True)
    return subprocess.run([*emulator, program], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("compiler", "reason"), [("/nowhere/g++", "no_compiler"), (shutil.which("false"), "compile_error")]
)
def test_a_build_that_fails_leaves_its_reason_in_the_package(
    compiler: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not SETUP.exists():
        pytest.skip("the package is not installed from its sources")
    project = tmp_path / "kernels"
    ignored = shutil.ignore_patterns("*.so", "build", "*.egg-info")
    shutil.copytree(SETUP.parent, project, ignore=ignored)
    stale = project / "src/xuanzang/kernels/_operators.so"
    monkeypatch.setenv("CXX", compiler)
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=project, check=True, capture_output=True
    )
    assert not stale.exists()
    monkeypatch.setattr(kernels, "_FOLDER", stale.parent)
    assert kernels.find_kernels().reason == reason
    assert compiler in kernels.find_kernels().detail
