"""COMET, a learned metric, by the program of its authors.

Its package asks for older versions of numpy, protobuf and transformers than this one, so it lives in an environment of
its own. It has never run with this module: the tests have a stand-in for it.

Source: Rei et al. 2020, arXiv 2009.09025; `comet-score` of unbabel-comet 2.2.7.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

PROGRAM = "comet-score"
_DIGITS = 12
_ERROR_CHARACTERS = 300


class CometError(ValueError):
    """COMET cannot be used; the message says why."""


class CometScore(NamedTuple):
    """Score of translations."""

    score: float
    """Mean over the sentences, as COMET prints it."""
    model: str
    """Name of the checkpoint and the first digits of its SHA-256, to compare scores."""

    def __str__(self) -> str:
        """Return one line for people."""
        return f"COMET {self.score:.4f}  ({self.model})"

    def as_json(self) -> dict[str, float | str]:
        """Return the figures in the form of the file."""
        return {"comet": round(self.score, 5), "comet_model": self.model}


class Comet:
    """The program and a checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        """Find the program and the checkpoint.

        Args:
            checkpoint: A file `model.ckpt`; `hparams.yaml` lies in the folder above its own. The program loads it as a
                pickle, which can run code.

        Raises:
            CometError: One of them is missing.
        """
        if not (checkpoint.suffix == ".ckpt" and checkpoint.is_file()):
            raise CometError(f"comet: {checkpoint} is not a COMET checkpoint, a file that ends in .ckpt")
        if not (settings := checkpoint.absolute().parents[1] / "hparams.yaml").is_file():
            raise CometError(f"comet: {settings} is missing; the checkpoint cannot be read without it")
        program = shutil.which(PROGRAM)
        if program is None:
            raise CometError(
                f"comet: the program {PROGRAM} is not on PATH: install unbabel-comet in an environment of its own, "
                "for example with pipx install unbabel-comet"
            )
        self._program, self._checkpoint = program, checkpoint.absolute()

    def score(self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]) -> CometScore:
        """Score translations.

        Args:
            sources: Sources, one per sentence.
            translations: Translations, one per sentence.
            references: References, one per sentence.

        Raises:
            CometError: The program failed, or printed something else than a score for each sentence.
        """
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for name, texts in (("src", sources), ("mt", translations), ("ref", references)):
                # One line for each sentence, whatever is in it.
                (folder / name).write_text("".join(" ".join(text.split()) + "\n" for text in texts), encoding="utf-8")
            self._run(folder)
            scores = _read(folder / "scores.json")
        if len(scores) != len(sources):
            raise CometError(f"comet: {PROGRAM} scored {len(scores)} of {len(sources)} sentences")
        return CometScore(sum(scores) / len(scores), self._name())

    def _run(self, folder: Path) -> None:
        files = ["-s", str(folder / "src"), "-t", str(folder / "mt"), "-r", str(folder / "ref")]
        options = ["--gpus", str(int(torch.cuda.is_available())), "--quiet", "--only_system"]
        command = [self._program, *files, "--model", str(self._checkpoint), *options]
        command += ["--to_json", str(folder / "scores.json")]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - a list of our own
        except (subprocess.CalledProcessError, OSError) as error:
            reason = (getattr(error, "stderr", "") or str(error)).strip()[-_ERROR_CHARACTERS:]
            raise CometError(f"comet: {PROGRAM} failed: {reason}") from error

    def _name(self) -> str:
        with self._checkpoint.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{self._checkpoint.name}, SHA-256 {digest[:_DIGITS]}"


def _read(path: Path) -> list[float]:
    """Return the scores of the only system in a file that the program wrote."""
    try:
        [segments] = json.loads(path.read_text(encoding="utf-8")).values()
        return [float(segment["COMET"]) for segment in segments]
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise CometError(f"comet: {PROGRAM} wrote no scores: {error!r}") from error
