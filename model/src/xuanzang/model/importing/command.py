"""The command `xuanzang import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from xuanzang.command.settings import Positional
from xuanzang.model.command import Command
from xuanzang.model.importing.family import Wanted
from xuanzang.model.importing.importer import import_model


class ImportCommand(Command):
    """Write the checkpoint of a model of MarianMT, M2M-100, NLLB-200, SMaLL-100 or mBART.

    It lies in a directory as Hugging Face's hub has it.
    """

    directory: Annotated[Path, Positional()]
    """Holds config.json, which names the family, the weights and the files of the tokeniser."""
    output: Path
    """Folder to write; must not exist yet."""
    source_language: list[str] = Field(default_factory=list)
    """BCP-47 codes. Of a model of two languages, needed where neither tokenizer_config.json nor README.md names them; a
    model of several offers only those given, if any are: each as its code, or as zh=zho_Hans, where the vocabulary has
    zho_Hans."""
    target_language: list[str] = Field(default_factory=list)
    """The same."""
    punctuation: Literal["as-is", "moses"] = "as-is"
    """Punctuation that the model reads: that of the text, as with transformers, or what Moses' script makes of it,
    as in the training data of OPUS-MT and NLLB-200. The server then needs sacremoses."""

    def run(self) -> None:
        """Run the command."""
        wanted = Wanted(sources=self.source_language, targets=self.target_language, punctuation=self.punctuation)
        languages = import_model(self.directory, self.output, wanted)
        print(  # noqa: T201 - a command line prints
            f"{self.output}: translates {', '.join(languages.sources)} into {', '.join(languages.targets)}"
        )
