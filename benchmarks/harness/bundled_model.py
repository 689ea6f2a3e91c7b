"""The bundled model behind our server, with sentences to translate: what most benchmarks measure."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.processes import ServerProcess, free_address
from xuanzang.text.sentences import split_sentences
from xuanzang.translation.v1 import translation_pb2 as pb

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "server" / "models"
SENTENCES = ROOT / "benchmarks" / "sentences.tsv"
_ROOMS = ("proto", "kernels", "model", "export", "text", "server", "client")
_QUIET = ("--metrics-address", "127.0.0.1:0", "--log-level", "warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A bundle with texts to translate."""

    bundle: Path
    """Its server also serves the other bundles of its repository."""
    texts: Sequence[str]
    asked_for: str = ""
    """Name of the model that the first request names, where languages leave a choice; empty: none."""

    @property
    def request(self) -> bytes:
        """A request for the first text."""
        return request_of(self.texts[0], model=self.asked_for)


def request_of(*texts: str, model: str = "") -> bytes:
    """Return a serialised request."""
    settings = pb.TranslationSettings(model=model) if model else None
    return pb.TranslateTextRequest(contents=texts, settings=settings).SerializeToString()


def newest_bundle(name: str = "zh-en") -> Path:
    """Return the folder of the newest version of a bundled model."""
    return max((MODELS / name).iterdir(), key=lambda folder: int(folder.name))


def sentences() -> list[str]:
    """Return the Chinese sentences of this folder."""
    return [line.split("\t")[0] for line in SENTENCES.read_text(encoding="utf-8").splitlines()]


def single_sentences(texts: Iterable[str]) -> list[str]:
    """Return the texts of a single sentence."""
    return [text for text in texts if len(split_sentences(text)) == 1]


def bundled_model(count: int | None = None) -> ServedModel:
    """Return the bundled zh-en with single sentences, the first ones or all."""
    return ServedModel(bundle=newest_bundle(), texts=single_sentences(sentences())[:count])


def our_server(
    model: ServedModel,
    *flags: str,
    program: Sequence[str] = ("-m", "xuanzang.server"),
    python: Path = Path(sys.executable),
    checkout: Path | None = None,
    variables: dict[str, str] | None = None,
) -> ServerProcess:
    """Return our server with its default settings, to be entered.

    Args:
        flags: Flags other than models and addresses.
        program: What the interpreter runs.
        python: Another interpreter of the same version.
        checkout: Root of another checkout with its kernels built, whose sources are run; None: this one, as installed.
        variables: Environment variables in addition to this process's.
    """
    address = free_address()
    command = [*program, "--models", str(model.bundle.parent.parent), "--address", address, *_QUIET, *flags]
    chosen = dict(variables or {})
    if checkout is not None or python != Path(sys.executable):
        folders = [str((checkout or ROOT).resolve() / room / "src") for room in _ROOMS]
        chosen["PYTHONPATH"] = os.pathsep.join((*folders, sysconfig.get_path("purelib")))
    return ServerProcess(*command, address=address, request=model.request, python=python, variables=chosen)
