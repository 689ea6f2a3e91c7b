"""The commands of the command line: one class each, whose fields are the flags."""

# ruff: noqa: T201 - a command line prints

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

import torch
import torch.distributed as dist
from pydantic import Field, model_validator

from xuanzang.command.settings import Positional
from xuanzang.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from xuanzang.model.command import Command
from xuanzang.model.data.prepare import PrepareSettings, prepare
from xuanzang.model.data.shortlist import ShortlistSettings, make_shortlist
from xuanzang.model.evaluation.attention_maps import attention_maps, measure_coverage
from xuanzang.model.evaluation.comet import Comet
from xuanzang.model.evaluation.quality import Quality, measure
from xuanzang.model.evaluation.test_sets import read_test_set
from xuanzang.model.training.machine import keep_freed_memory, stop_on_interrupt
from xuanzang.model.training.settings import TrainingSettings
from xuanzang.model.training.trainer import Trainer
from xuanzang.model.translation import translate_texts, use_fastest_threads

INTERRUPTED = 130


def _is_table(*values: object) -> bool:
    return all(isinstance(value, dict) for value in values)


class _RecipeCommand(Command):
    recipe: Path | None = None
    """TOML file with a table for this command, such as [train], of flags. Those on the command line come first; of
    NAME=X flags each name separately."""

    @model_validator(mode="before")
    @classmethod
    def _read_recipe(cls, given: dict[str, Any]) -> dict[str, Any]:
        if not given.get("recipe"):
            return given
        table = cls.__name__.removesuffix("Command").lower()
        try:
            recipe = tomllib.loads(Path(given["recipe"]).read_text(encoding="utf-8"))
        except ValueError as error:  # neither UTF-8 nor TOML
            raise ValueError(f"{given['recipe']}: {error}") from error
        if table not in recipe:
            raise ValueError(f"{given['recipe']} has no table [{table}]")
        flags = recipe[table]
        tables = {name: flags[name] | given[name] for name in flags if _is_table(flags[name], given.get(name))}
        return flags | given | tables


class PrepareCommand(PrepareSettings, _RecipeCommand):
    """Filter and de-duplicate sentence pairs, train the tokeniser, write memory-mapped ids."""

    def run(self) -> None:
        """Run the command."""
        metadata = prepare(self)
        for reason, count in sorted(metadata.filter_counts.items(), key=lambda item: -item[1]):
            print(f"{count:>10,}  {reason}")
        print(f"{self.output}: {metadata.train_pairs:,} pairs to train on, {metadata.valid_pairs:,} to validate")
        if metadata.source_vocab_size > metadata.train_pairs:
            print(
                f"a vocabulary of {metadata.source_vocab_size:,} pieces is large for {metadata.train_pairs:,} pairs: "
                "most pieces occur too rarely to be learnt; --vocab-size sets another",
                file=sys.stderr,
            )


class ShortlistCommand(ShortlistSettings, Command):
    """Learn from prepared data which target pieces each source piece suggests, for `xuanzang export --shortlist`."""

    def run(self) -> None:
        """Run the command."""
        shortlist = make_shortlist(self)
        print(
            f"{self.output}: {shortlist.suggested.shape[1]} target pieces for each of {len(shortlist.suggested)} "
            f"source pieces, and {len(shortlist.always)} for every sentence"
        )


class TrainCommand(TrainingSettings, _RecipeCommand):
    """Train a Transformer on a folder that `prepare` wrote. Run it again to go on where it stopped.

    Under torchrun its processes share the work.
    """

    threads: int = Field(default=0, ge=0)
    """CPU threads of each process; 0 measures at the start of a run which number is fastest."""

    def run(self) -> None:
        """Run the command."""
        keep_freed_memory()
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        # Only given flags: a resume distinguishes them from defaults.
        given = self.model_dump(exclude={"threads", "recipe"}, exclude_unset=True)
        settings = TrainingSettings.model_validate(given)
        with _process_group(settings.device), stop_on_interrupt() as stop:
            self._train(settings, stop)
        if stop.is_set():
            print(f"stopped; the same command goes on from {self.output / 'last'}", file=sys.stderr)
            raise SystemExit(INTERRUPTED)

    def _train(self, settings: TrainingSettings, stop: threading.Event) -> None:
        # The trainer holds the process group, so it ends with this function.
        trainer = Trainer(settings)
        trainer.set_threads(self.threads)
        trainer.run(stop)


class _DecodingCommand(Command):
    checkpoint: Annotated[Path, Positional()]
    """Folder of a checkpoint, such as `best` of a run."""
    beam_size: int = Field(default=4, ge=1, le=16)
    """Hypotheses kept at each step; 1 is greedy."""
    length_penalty: float = Field(default=1.0, ge=0)
    """Exponent on the target length that divides the summed score; 0 favours short translations."""
    source_language: str = ""
    """Language of the sources, of a model that knows several; the first if it is not given."""
    target_language: str = ""
    """The same for the target."""

    def load(self) -> Checkpoint:
        """Load the checkpoint for the languages given."""
        return load_checkpoint(self.checkpoint).between(self.source_language, self.target_language)


class EvaluateCommand(_DecodingCommand):
    """Translate the sources of a TSV file, score the result with sacreBLEU and chrF, and count what went wrong."""

    pairs: Annotated[Path, Positional()]
    """File of source<TAB>target lines, plain or .gz; a third column names groups that are scored apart as well, a
    fourth has key words to look for, such as "Beijing; movie/film"."""
    groups: Path | None = None
    """TOML file that gathers groups under other names, such as law = ["tw_laws", "law_titles"]."""
    limit: int | None = Field(default=None, ge=1)
    """Number of lines to use, if not all."""
    coverage: bool = False
    """Measure as well how much of each source the attention covered, which is low where output is unrelated."""
    comet: Path | None = None
    """COMET checkpoint, a file model.ckpt, to score with as well, by the program comet-score of unbabel-comet."""
    json_file: Path | None = Field(default=None, alias="json")
    """File to write the figures to as well, for programs."""

    def run(self) -> None:
        """Run the command."""
        pairs = read_test_set(self.pairs, self.limit, self.groups)
        comet = Comet(self.comet) if self.comet else None  # before an hour of translating
        checkpoint = self.load()
        use_fastest_threads(checkpoint)
        found = translate_texts(
            checkpoint, [pair.source for pair in pairs], beam_size=self.beam_size, length_penalty=self.length_penalty
        )
        translations = [hypotheses[0][0] for hypotheses in found]
        metadata = checkpoint.metadata
        evaluation = measure(pairs, translations, metadata.target_language, metadata.source_normalization, comet)
        for name, group in evaluation.groups.items():
            self._print_group(name, group)
        print(f"{evaluation.whole.scores}\n{evaluation.whole.faults}")
        if evaluation.whole.key_words.wanted:
            print(evaluation.whole.key_words)
        if self.coverage:
            print(measure_coverage(checkpoint, [pair.source for pair in pairs], translations))
        if evaluation.comet:
            print(evaluation.comet)
        if self.json_file:
            self.json_file.write_text(json.dumps(evaluation.as_json(), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def _print_group(name: str, group: Quality) -> None:
        bleu, chrf, *_ = group.scores
        print(f"{name:<30} {group.sentences:>6} pairs  BLEU {bleu:5.2f}  chrF {chrf:5.2f}")


class TryCommand(_DecodingCommand):
    """Translate texts, or the lines of standard input, by beam search in torch: the reference, not the fast way."""

    texts: Annotated[list[str], Positional()] = Field(default_factory=list)
    """Sentences to translate; none reads them from standard input."""
    num_hypotheses: int = Field(default=1, ge=1, le=16)
    """Translations to print for each sentence, at most beam_size."""
    scores: bool = False
    """Print the score before each translation."""

    @model_validator(mode="after")
    def _check_num_hypotheses(self) -> Self:
        if self.num_hypotheses > self.beam_size:
            raise ValueError(f"num-hypotheses is {self.num_hypotheses}, must be at most beam-size = {self.beam_size}")
        return self

    def run(self) -> None:
        """Run the command."""
        texts = self.texts or [line.rstrip("\n") for line in sys.stdin]
        checkpoint = self.load()
        use_fastest_threads(checkpoint)
        found = translate_texts(
            checkpoint,
            texts,
            beam_size=self.beam_size,
            num_hypotheses=self.num_hypotheses,
            length_penalty=self.length_penalty,
        )
        for hypotheses in found:
            for text, score in hypotheses:
                print(f"{score:.4f}\t{text}" if self.scores else text)


class ShrinkCommand(Command):
    """Write a checkpoint with its weights in bfloat16: half the size, and good to use and to train on from."""

    checkpoint: Annotated[Path, Positional()]
    """Folder of a checkpoint, such as `best` of a run."""
    output: Annotated[Path, Positional()]
    """Folder to write."""

    def run(self) -> None:
        """Run the command."""
        checkpoint = load_checkpoint(self.checkpoint)
        weights = {name: parameter.bfloat16() for name, parameter in checkpoint.model.named_parameters()}
        save_checkpoint(self.output, weights, checkpoint.model.config, checkpoint.folder, checkpoint.training)
        print(self.output)


class AttentionCommand(Command):
    """Write the attention maps of a sentence, of every layer and head, as numbers or as a picture."""

    checkpoint: Annotated[Path, Positional()]
    """Folder of a checkpoint, such as `best` of a run."""
    source: Annotated[str, Positional()]
    """Sentence to look at."""
    target: str | None = None
    """Its translation; without it the model translates."""
    output: Path = Path("attention.svg")
    """File to write: .json or .npz for numbers; .svg, .png or .pdf for a picture, which averages the heads. Browsers
    show .svg with their fonts; .png and .pdf need matplotlib, and a Chinese font on this machine for Chinese."""

    def run(self) -> None:
        """Run the command."""
        attention_maps(load_checkpoint(self.checkpoint), self.source, self.target).save(self.output)
        print(self.output)


@contextmanager
def _process_group(device: str) -> Iterator[None]:
    """Join the processes that torchrun started, if it did.

    The group's threads must end before the interpreter does, or the process may abort: they end with the last reference
    to the group.
    """
    if not dist.is_torchelastic_launched():
        yield
        return
    # Its functions' defaults keep the group that is there when it is imported, as DistributedDataParallel does later.
    importlib.import_module("torch.distributed.nn")
    on_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    # The others wait while the first one validates, and all of them while the run is paused, for hours if need be.
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(days=7))
    if on_gpu:
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    try:
        yield
    finally:
        dist.destroy_process_group()


COMMANDS: Mapping[str, type[Command]] = {
    "prepare": PrepareCommand,
    "shortlist": ShortlistCommand,
    "train": TrainCommand,
    "evaluate": EvaluateCommand,
    "try": TryCommand,
    "shrink": ShrinkCommand,
    "attention": AttentionCommand,
}
