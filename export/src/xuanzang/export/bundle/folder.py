"""The folder of a bundle, written whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from google.protobuf import json_format

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.model.folders import replacing

MANIFEST_FILE = "manifest.json"


def next_version(model_folder: Path) -> int:
    """Return one more than the highest version in a model's folder."""
    versions = [int(path.name) for path in model_folder.glob("[0-9]*") if path.name.isdecimal()]
    return max(versions, default=0) + 1


def write_bundle(
    folder: Path,
    files: Mapping[str, bytes],
    manifest: manifest_pb2.Manifest,
    write_more: Callable[[Path], object] = lambda _: None,
) -> int:
    """Write files and manifest; readers see all of it or nothing.

    Args:
        folder: <repository>/<model>/<version>; replaced if it exists.
        files: Contents by name.
        manifest: Manifest without its list of files, which is added here.
        write_more: Function that writes other files into a folder, such as large ones.

    Returns:
        Bytes of all files.
    """
    complete = manifest_pb2.Manifest()
    complete.CopyFrom(manifest)
    with replacing(folder) as scratch:
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        write_more(scratch)
        for path in sorted(scratch.iterdir()):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            complete.files.add(name=path.name, sha256=digest, size_bytes=path.stat().st_size)
        # Sorted, because the maps of protobuf have another order in each process.
        text = json_format.MessageToJson(complete, preserving_proto_field_name=True, sort_keys=True, ensure_ascii=False)
        (scratch / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
    return sum(file.size_bytes for file in complete.files)
