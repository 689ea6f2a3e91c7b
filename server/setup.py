"""Adds the bundled models to the wheel, for `xuanzang serve` without arguments."""

from pathlib import Path

from setuptools import setup

setup(
    data_files=[
        (f"share/xuanzang/{folder}", [str(path) for path in sorted(folder.iterdir())])
        for folder in sorted(Path("models").glob("*/*"))
    ]
)
