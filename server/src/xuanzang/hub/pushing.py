"""From a bundle in a folder to the hub, where other machines pull it from without torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from httpx2 import HTTPError
from huggingface_hub import CommitOperationAdd, HfApi

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.hub.download import first_line
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.published import HubError

_CARD = "MODEL_CARD.md"


def push(folder: Path, name: str, report: Callable[[str], None], *, private: bool = False) -> str:
    """Publish a bundle under a name, made if it is not there, with its model card as README; return the commit.

    Raises:
        HubError: The bundle is not sound, or the hub does not take it.
    """
    try:
        manifest = load_bundle(folder).manifest
    except BundleError as error:
        raise HubError(f"{folder} is not a sound bundle: {'; '.join(error.reasons)}") from error
    licence = manifest.provenance.source.licence
    head = ["library_name: xuanzang", "tags:", "- translation", *([f"license: {licence}"] if licence else [])]
    head += ["language:", *dict.fromkeys(f"- {code}" for code in _languages(manifest))]
    card = (folder / _CARD).read_text(encoding="utf-8") if (folder / _CARD).is_file() else f"# {manifest.model}\n"
    readme = "\n".join(["---", *head, "---", "", card])
    files = [*(file.name for file in manifest.files), "manifest.json"]
    added = [CommitOperationAdd(each, folder / each) for each in files]
    added.append(CommitOperationAdd("README.md", readme.encode()))
    report(f"{sum(file.size_bytes for file in manifest.files) / 1e9:.2f} GB go to {name}")
    api = HfApi(library_name="xuanzang")
    try:
        api.create_repo(name, private=private, exist_ok=True)
        message = f"{manifest.model}, version {manifest.version}"
        return str(api.create_commit(name, added, commit_message=message).oid)
    except (HTTPError, ValueError, OSError) as error:
        raise HubError(f"the hub does not take {name}: {first_line(error)}") from error


def _languages(manifest: manifest_pb2.Manifest) -> list[str]:
    codes = [*manifest.source_language_codes, *manifest.target_language_codes]
    return sorted({code.partition("-")[0] for code in codes})
