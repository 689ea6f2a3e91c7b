"""The folder of a bundle, written whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from google.protobuf import json_format

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.model.folders import replacing

MANIFEST_FILE = "manifest.json"


def next_version(model_folder: Path) -> int:
    """Return one more than the highest version in a model's folder."""
    versions = [int(path.name) for path in model_folder.glob("[0-9]*") if path.name.isdecimal()]
    return max(versions, default=0) + 1


def write_bundle(folder: Path, files: Mapping[str, bytes], manifest: manifest_pb2.Manifest) -> None:
    """Write files and manifest; readers see all of it or nothing.

    Args:
        folder: <repository>/<model>/<version>; replaced if it exists.
        files: Contents by name.
        manifest: Manifest without its list of files, which is added here.
    """
    complete = manifest_pb2.Manifest()
    complete.CopyFrom(manifest)
    for name, content in sorted(files.items()):
        complete.files.add(name=name, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    # Sorted, because the maps of protobuf have another order in each process.
    text = json_format.MessageToJson(complete, preserving_proto_field_name=True, sort_keys=True, ensure_ascii=False)
    with replacing(folder) as scratch:
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        (scratch / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
