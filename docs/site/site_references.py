"""Reference pages: the SDK by its docstrings, the protos by their comments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from site_protos import ProtoPage

import xuanzang.client
import xuanzang.documents
import xuanzang.server

_PROTOS = {
    "reference/translation.md": ("Translation service", "xuanzang/translation/v1/translation.proto"),
    "reference/admin.md": ("Administration", "xuanzang/admin/v1/admin.proto"),
    "reference/bundle.md": ("Bundle manifest", "xuanzang/bundle/v1/manifest.proto"),
}
_CLIENTS = ("TranslationClient", "AsyncTranslationClient")
_SDK = "# Python SDK\n\nThe module `xuanzang.client`: in a clone, `pip install -e proto -e client`.\n\n"
_TRANSLATORS = ("Translator", "AsyncTranslator")
_IN_PROCESS = "# In one process\n\nThe module `xuanzang.server`; [In one process](../python.md) shows its use.\n\n"
_DOCUMENTS = "# Documents in Python\n\nThe module `xuanzang.documents`; [Documents](../documents.md) shows its use.\n\n"


def references(root: Path) -> dict[str, str]:
    """Write all reference pages.

    Returns:
        Texts by the names of pages.
    """
    files = {file.name: file for file in described(root).file}
    protos = {page: ProtoPage(title, files[name]).text() for page, (title, name) in _PROTOS.items()}
    others = [name for name in xuanzang.client.__all__ if name not in _CLIENTS]
    values = [name for name in sorted(xuanzang.server.__all__) if name not in _TRANSLATORS]
    documents = [name for name in xuanzang.documents.__all__ if name != "SUFFIXES"]
    return {
        **protos,
        "reference/sdk.md": _SDK + _directives("xuanzang.client", [*_CLIENTS, *others]),
        "reference/in-process.md": _IN_PROCESS + _directives("xuanzang.server", [*_TRANSLATORS, *values]),
        "reference/documents.md": _DOCUMENTS + _directives("xuanzang.documents", documents),
    }


def described(root: Path) -> FileDescriptorSet:
    """Return the descriptors of all protos, with their comments.

    Raises:
        CalledProcessError: A proto is not valid.
    """
    buf = shutil.which("buf", path=str(Path(sys.executable).parent)) or "buf"
    command = [buf, "build", "--output", "-#format=binpb"]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True)  # noqa: S603 - the project's own tool
    return FileDescriptorSet.FromString(done.stdout)


def _directives(module: str, names: Iterable[str]) -> str:
    return "\n".join(f"::: {module}.{name}\n" for name in names)
