"""Damages of files and folders: each returns a regular expression of what the reasons must name."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from damages.damaged_bundle import Damage, Damaged


def flipped_bytes(bundle: Damaged) -> str:
    name = bundle.any_file()
    content = bytearray(bundle.read(name))
    for position in bundle.random.sample(range(len(content)), bundle.random.randint(1, 5)):
        content[position] ^= 1 << bundle.random.randrange(8)
    bundle.write(name, bytes(content))
    return name


def cut_file(bundle: Damaged) -> str:
    name = bundle.any_file()
    content = bundle.read(name)
    bundle.write(name, content[: bundle.random.randrange(len(content))])
    return name


def missing_file(bundle: Damaged) -> str:
    name = bundle.random.choice([*bundle.listed, "manifest.json"])
    (bundle.directory / name).unlink()
    return f"{name} is missing"


def unlisted_file(bundle: Damaged) -> str:
    name = bundle.random.choice(["extra.bin", ".hidden", "a\nb", "\x1b[31mred", "\u202etxt.exe", "x" * 200])
    (bundle.directory / name).touch()
    return "is not listed"


def huge_file(bundle: Damaged) -> str:
    """List a file of terabytes, which takes no space and is there."""
    name, size = bundle.random.choice([("weights.bin", 1 << 40), ("MODEL_CARD.md", 1 << 30), ("encoder.onnx", 1 << 34)])
    bundle.write(name, b"")
    os.truncate(bundle.directory / name, size)
    [entry] = [entry for entry in bundle.manifest["files"] if entry["name"] == name]
    entry["size_bytes"] = str(size)
    bundle.write_manifest()
    return f"size_bytes of '{name}'"


def huge_manifest(bundle: Damaged) -> str:
    name = bundle.random.choice(["manifest.json", "certificate.json"])
    content = bundle.read(name) + b" " * (1 << 21)
    bundle.certify(name, content) if name in bundle.listed else bundle.write(name, content)
    return f"{name} has more than"


def special_file(bundle: Damaged) -> str:
    """Put something in the place of a file that is not one, or leads to another."""
    name = bundle.random.choice([*bundle.listed, "manifest.json"])
    path = bundle.directory / name
    path.unlink()
    kinds: list[Callable[[], object]] = [
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: _socket(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/stdin"),
        lambda: path.symlink_to("/etc/passwd"),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("nowhere"),
        lambda: path.symlink_to("../../../../../../../../../../proc/self/mem"),
    ]
    bundle.random.choice(kinds)()
    return name


def _socket(path: Path) -> None:
    # Paths of sockets are short.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def missing_folder(bundle: Damaged) -> str:
    shutil.rmtree(bundle.directory)
    bundle.directory.symlink_to(bundle.random.choice(["nowhere", bundle.directory.name]))
    return "manifest.json"


FILE_DAMAGES: tuple[Damage, ...] = (
    flipped_bytes,
    cut_file,
    missing_file,
    unlisted_file,
    huge_file,
    huge_manifest,
    special_file,
    missing_folder,
)
