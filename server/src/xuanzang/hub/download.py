"""Download of a model from the hub: its commit, its files, and their digests.

The client library of the hub does the transfers. Tokens, caches, endpoint and offline mode follow its own rules:
HF_TOKEN, HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE. It keeps partial downloads and continues them.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from httpx2 import HTTPError, UnsupportedProtocol
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import tqdm  # type: ignore[attr-defined] # re-exported without saying so

from xuanzang.server.published import HubError, json_object

MANIFEST_FILE = "manifest.json"
# In order of preference; loading a safetensors file executes nothing.
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "README.md",
)
_SENTENCEPIECE = "sentencepiece.bpe.model"
_TOKENIZER_JSON = "tokenizer.json"
_TOKENIZERS: Mapping[str, Sequence[str]] = {
    "marian": ("source.spm", "target.spm", "vocab.json", "target_vocab.json"),
    "m2m_100": (_SENTENCEPIECE, "vocab.json"),
    "mbart": (_SENTENCEPIECE,),
}
"""By the family that config.json names."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""A commit is part of a path in the cache."""
_ATTEMPTS = 4
_TRANSIENT = frozenset({429, 500, 502, 503, 504})

Result = TypeVar("Result")


class Published(NamedTuple):
    """A model as the hub has it."""

    name: str
    revision: str
    licence: str
    """As its card states it; may be empty."""
    sizes: Mapping[str, int]
    """Bytes of its files, by name."""
    digests: Mapping[str, str]
    """SHA-256 of large files; the hub has none for small ones."""

    @property
    def is_bundle(self) -> bool:
        """True if it is a bundle and not a checkpoint."""
        return MANIFEST_FILE in self.sizes and "encoder.onnx" in self.sizes


class Downloaded(NamedTuple):
    """Files of a model on this machine."""

    folder: Path
    digests: Mapping[str, str]
    """SHA-256 of the files that were asked for."""


def published(name: str, revision: str | None, report: Callable[[str], None]) -> Published:
    """Ask the hub for a model, at a branch, tag or commit, or None for the main branch; may raise HubError."""
    api = HfApi(library_name="xuanzang")
    info = _asked(name, revision, report, lambda: api.model_info(name, revision=revision, files_metadata=True))
    if not _COMMIT.fullmatch(str(info.sha)):
        raise HubError(f"the hub names {str(info.sha)[:80]!r} as the commit of {name}, which is none")
    siblings = info.siblings or []
    licence = getattr(info.card_data, "license", None) or next(
        (tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), ""
    )
    return Published(
        name=info.id,
        revision=str(info.sha),
        licence=str(licence[0] if isinstance(licence, list) and licence else licence or ""),
        sizes={each.rfilename: each.size or 0 for each in siblings},
        digests={each.rfilename: each.lfs.sha256 for each in siblings if each.lfs},
    )


def checkpoint_files(model: Published, report: Callable[[str], None]) -> list[str]:
    """Return the files that an import of a checkpoint reads; HubError says why it cannot be imported."""
    small = [name for name in _SMALL_FILES if name in model.sizes]
    if "config.json" not in small:
        raise HubError(f"{model.name} has no config.json: it is neither a checkpoint of transformers nor a bundle")
    folder = download(model, small, report).folder
    config = json_object(folder / "config.json")
    family = str(config.get("model_type"))
    if family not in _TOKENIZERS:
        known = ", ".join(_TOKENIZERS)
        raise HubError(f"{model.name} is of the family {family!r}, none of those that can be imported: {known}")
    weights = next((name for name in _WEIGHTS if name in model.sizes), None)
    if weights is None:
        others = [name for name in model.sizes if name.endswith((".h5", ".msgpack", ".ot", ".gguf", ".onnx"))]
        has = f"; it has {', '.join(others)}" if others else ""
        raise HubError(f"{model.name} has neither model.safetensors nor pytorch_model.bin{has}")
    tokenizers = _tokenizer_files(model, family, folder)
    parts = _parts(model, weights, report) if weights.endswith(".index.json") else []
    return [*small, *tokenizers, weights, *parts]


def _tokenizer_files(model: Published, family: str, folder: Path) -> list[str]:
    """Return the files of the vocabulary.

    Args:
        family: Family that config.json names.
        folder: Folder of its small files.
    """
    files = [name for name in _TOKENIZERS[family] if name in model.sizes]
    if family == "marian":
        if lacking := [name for name in _TOKENIZERS[family][:3] if name not in files]:
            raise HubError(f"{model.name} has no {', '.join(lacking)}, of which its vocabulary consists")
        return files
    has_model = _SENTENCEPIECE in files
    # It numbers the tokens that name languages, which small files may only list, and can replace the model.
    needs_all = not has_model or not json_object(folder / "tokenizer_config.json").get("added_tokens_decoder")
    if needs_all and _TOKENIZER_JSON in model.sizes:
        files.append(_TOKENIZER_JSON)
    elif not has_model:
        raise HubError(f"{model.name} has neither {_SENTENCEPIECE} nor {_TOKENIZER_JSON}")
    return files


def _parts(model: Published, index: str, report: Callable[[str], None]) -> list[str]:
    found = json_object(download(model, [index], report).folder / index).get("weight_map")
    parts = sorted(set(map(str, found.values()))) if isinstance(found, dict) else []
    if strange := [part for part in parts if "/" in part]:
        raise HubError(f"{index} of {model.name} names files elsewhere: {', '.join(strange)}")
    return parts


def download(model: Published, files: Sequence[str], report: Callable[[str], None]) -> Downloaded:
    """Download files of a model; raise HubError if one does not come, or is not what the hub says of it."""
    if missing := [name for name in files if name not in model.sizes]:
        raise HubError(f"{model.name} has no {', '.join(missing)}, which others of its files name")
    patterns = list(map(glob.escape, files))

    def fetch() -> str:
        with _closed_bars() as bar:
            return snapshot_download(
                model.name,
                revision=model.revision,
                allow_patterns=patterns,
                library_name="xuanzang",
                tqdm_class=bar,
            )

    folder = Path(_asked(model.name, model.revision, report, fetch))
    digests = {name: _digest(folder / name) for name in files}
    for name, digest in digests.items():
        if digest != model.digests.get(name, digest):
            # Otherwise the next run would take it for complete. It lies in the cache's folder of this model.
            file = (folder / name).resolve()
            if file.is_relative_to(folder.resolve().parents[1]):
                file.unlink()
            raise HubError(
                f"{name} of {model.name} came damaged: its SHA-256 is {digest}, the hub says {model.digests[name]}; it "
                "is deleted, so the next run downloads it again"
            )
    return Downloaded(folder, digests)


@contextlib.contextmanager
def _closed_bars() -> Iterator[type[tqdm]]:
    """Yield a class for the client's bars, which it leaves open: the lines that follow would run into them."""
    opened: list[tqdm] = []

    class Bar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
            opened.append(self)

    try:
        yield Bar
    finally:
        for bar in reversed(opened):
            bar.close()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _asked(name: str, revision: str | None, report: Callable[[str], None], call: Callable[[], Result]) -> Result:
    """Call the hub, again after faults that may pass, and name the others in one line."""
    for attempt in range(_ATTEMPTS):
        with _explained(name, revision):
            try:
                return call()
            except (HTTPError, ConnectionError) as error:
                if attempt == _ATTEMPTS - 1 or not _may_pass(error):
                    raise
                report(f"the hub does not answer ({first_line(error)}); asking again")
        time.sleep(2.0**attempt / 2)
    raise AssertionError("the last attempt returns or raises")


def _may_pass(error: Exception) -> bool:
    if isinstance(error, OfflineModeIsEnabled | UnsupportedProtocol):
        return False
    response = getattr(error, "response", None)
    return response is None or response.status_code in _TRANSIENT


@contextlib.contextmanager
def _explained(name: str, revision: str | None) -> Iterator[None]:
    try:
        yield
    except HFValidationError as error:
        raise HubError(f"{name!r} is no name of a model on the hub: {first_line(error)}") from error
    except GatedRepoError as error:
        raise HubError(
            f"{name} asks for agreement to its terms: accept them on its page, then `hf auth login` or HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise HubError(
            f"the hub has no model {name}, or only for those who may see it: check the name; if it is private, "
            "`hf auth login` or HF_TOKEN"
        ) from error
    except RevisionNotFoundError as error:
        raise HubError(f"{name} has no revision {revision!r}") from error
    except OfflineModeIsEnabled as error:
        raise HubError("HF_HUB_OFFLINE is set, and the model is not on this machine") from error
    except LocalEntryNotFoundError as error:
        raise HubError(f"{name} did not come: {first_line(error)}; the next run goes on where it stopped") from error
    except (EntryNotFoundError, HTTPError, OSError) as error:
        raise HubError(f"{name} did not come: {first_line(error)}; the next run goes on where it stopped") from error


def first_line(error: Exception) -> str:
    """Return what an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
