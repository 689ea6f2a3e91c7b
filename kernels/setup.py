"""Builds the kernels; where no C++ compiler is, the package is installed without them."""

from pathlib import Path

from setuptools import Extension, setup

folder = Path("src/xuanzang/kernels")
operators = Extension(
    "xuanzang.kernels._operators",
    sources=sorted(map(str, folder.glob("*.cc"))),
    depends=sorted(map(str, [*folder.glob("*.h"), *folder.glob("*.inc")])),
    extra_compile_args=["-std=c++17", "-O3", "-fvisibility=hidden", "-Wno-psabi"],
    optional=True,
)
setup(ext_modules=[operators])
