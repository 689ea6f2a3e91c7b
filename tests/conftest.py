"""What all tests share: settings, and a tiny model that is exported for real."""

from __future__ import annotations

import faulthandler
import fcntl
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Generator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

NUMBERS = "一两三四五六七八九十"
NUMBERS_IN_ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ANIMALS = {
    "猫": "cat",
    "狗": "dog",
    "马": "horse",
    "鱼": "fish",
    "鸟": "bird",
    "牛": "cow",
    "羊": "sheep",
    "虎": "tiger",
}
PEOPLE = {"我": "I", "你": "you", "他们": "they", "我们": "we", "老师": "the teacher", "Ann": "Ann"}

TERMINAL = pytest.StashKey[int]()
"""A descriptor of stderr."""

# Nothing may depend on how fast the machine is, and a failure on one machine must be a failure on all.
settings.register_profile(
    "xuanzang", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("xuanzang")

# A shell that starts the tests in the background lets them, and all that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the graphs of the tests run on a GPU: pytest tests/contract --provider cuda."""
    parser.addoption("--provider", choices=("cpu", "cuda"), default="cpu", help="what runs the servers' graphs")
    # tests/faults: the number that CI has time for; 1,000 take minutes.
    parser.addoption("--damaged-bundles", type=int, default=68, help="damaged bundles beside a good one")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the way to the terminal: while tests run, what is written to stderr is theirs."""
    config.stash[TERMINAL] = os.dup(2)


def watch(config: pytest.Config) -> None:
    """Print where every thread stands if the next test does not begin in time, and end the process if asked to."""
    if seconds := float(config.getini("faulthandler_timeout")):
        exits = config.getini("faulthandler_exit_on_timeout")
        faulthandler.dump_traceback_later(seconds, exit=exits, file=config.stash[TERMINAL])


@pytest.hookimpl(wrapper=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> Generator[None, object, object]:
    """Watch what follows a failure as well, at which pytest's own watch of a test ends."""
    try:
        return (yield)
    finally:
        watch(node.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch the time between two tests as well."""
    try:
        return (yield)
    finally:
        watch(item.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested because a program is missing, also without -rs."""
    reasons = [
        report.longrepr[2] for report in terminalreporter.getreports("skipped") if len(report.longrepr or ()) == 3
    ]
    for reason in sorted({reason for reason in reasons if "NOT TESTED" in reason}):
        number = sum(each == reason for each in reasons)
        terminalreporter.write_line(f"{number} tests {reason.removeprefix('Skipped: ')}", yellow=True, bold=True)


@pytest.fixture(scope="session")
def provider(request: pytest.FixtureRequest) -> str:
    """What runs the graphs; tests that need it are skipped where it is not to be had."""
    from xuanzang.server.engine.runtime.sessions import ProviderUnavailableError, resolve_provider

    try:
        return resolve_provider(request.config.getoption("--provider"))
    except ProviderUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what the developer has set for a server of their own out of the tests, and their list of tried bundles."""
    for name in [name for name in os.environ if name.startswith("XUANZANG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XUANZANG_TRIED_BUNDLES", str(tmp_path_factory.getbasetemp() / "tried-bundles"))


@pytest.fixture(scope="session")
def toy_pairs() -> list[tuple[str, str]]:
    """Return 480 Chinese sentences with their translations."""
    numbers = zip(NUMBERS, NUMBERS_IN_ENGLISH, strict=True)
    return [
        (f"{person}有{number}只{animal}。", f"{english_person} have {english_number} {english_animal}.")
        for (person, english_person), (number, english_number), (animal, english_animal) in itertools.product(
            PEOPLE.items(), numbers, ANIMALS.items()
        )
    ]


BuildOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def build_once(tmp_path_factory: pytest.TempPathFactory) -> BuildOnce:
    """Return a function that lets one process of the run fill a folder, which all of them then read."""
    processes = tmp_path_factory.getbasetemp()
    shared = processes.parent if "PYTEST_XDIST_WORKER" in os.environ else processes

    def build_once(name: str, build: Callable[[Path], object]) -> Path:
        folder, built = shared / "shared" / name, shared / f"{name}.built"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not built.exists():
                folder.mkdir(parents=True)
                build(folder)
                built.touch()
        return folder

    return build_once


@pytest.fixture(scope="session")
def toy_files(toy_pairs: list[tuple[str, str]], build_once: BuildOnce) -> tuple[Path, Path]:
    """Return a training file and a validation file of toy pairs."""
    lines = ["\t".join(pair) + "\n" for pair in toy_pairs]

    def build(folder: Path) -> None:
        (folder / "train.tsv").write_text("".join(line for i, line in enumerate(lines) if i % 10), encoding="utf-8")
        (folder / "valid.tsv").write_text("".join(lines[::10]), encoding="utf-8")

    folder = build_once("pairs", build)
    return folder / "train.tsv", folder / "valid.tsv"


@pytest.fixture(scope="session")
def bundled_checkpoint(build_once: BuildOnce) -> Path:
    """The bundled Chinese to English model as a checkpoint, read back from its bundle."""

    def build(folder: Path) -> None:
        from xuanzang.export.restoring import restore

        restore(max((Path(__file__).parents[1] / "server" / "models" / "zh-en").iterdir()), folder / "zh-en")

    return build_once("bundled", build) / "zh-en"


@pytest.fixture(scope="session")
def tiny_checkpoint(toy_files: tuple[Path, Path], build_once: BuildOnce) -> Path:
    """Return a checkpoint of the tiny preset with random weights that are lively enough for varied output."""
    return build_once("tiny", partial(save_tiny_checkpoint, *toy_files)) / "checkpoint"


def save_tiny_checkpoint(train: Path, valid: Path, folder: Path) -> None:
    import torch

    from xuanzang.model.checkpoint import save_checkpoint
    from xuanzang.model.data.prepare import PrepareSettings, prepare
    from xuanzang.model.network.config import PRESETS, TransformerConfig
    from xuanzang.model.network.transformer import Transformer

    metadata = prepare(PrepareSettings(train=[train], valid=valid, output=folder / "data", vocab_size=340))
    vocabularies = metadata.source_vocab_size, metadata.target_vocab_size
    config = TransformerConfig(source_vocab_size=vocabularies[0], target_vocab_size=vocabularies[1], **PRESETS["tiny"])
    torch.manual_seed(1)
    model = Transformer(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embedding" not in name:
                parameter.mul_(1.7)
        # Ends come often enough that searches finish on their own.
        model.target_embedding.weight[config.eos_id] *= 3
    save_checkpoint(folder / "checkpoint", dict(model.named_parameters()), config, folder / "data", {"step": 0})


@pytest.fixture(scope="session")
def tiny_bundle_repository(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], build_once: BuildOnce, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a models directory that holds model "tiny", version 1, zh to en, float32: a copy for each process.

    Tests make hard links to its files, which changes their states; a server that loads them meanwhile refuses them.
    """

    def build(repository: Path) -> None:
        from xuanzang.export.exporter import export
        from xuanzang.export.settings import ExportSettings

        settings = ExportSettings(
            checkpoint=tiny_checkpoint,
            repository=repository,
            model="tiny",
            precision="float32",
            valid=toy_files[1],
            parity_sentences=5,
            evaluation_sentences=8,
        )
        export(settings)

    return Path(shutil.copytree(build_once("models", build), tmp_path_factory.mktemp("models"), dirs_exist_ok=True))


@pytest.fixture(scope="session")
def write_marian(toy_pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Write directories of MarianMT models with random weights, as `marian_directories` does."""
    from marian_directories import write_directory, write_tokenizers

    tokenizers = tmp_path_factory.mktemp("tokenizers")
    write_tokenizers(tokenizers, toy_pairs)
    return partial(write_directory, tokenizers)


@pytest.fixture(scope="session")
def shared_tokenizer(toy_pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SentencePiece model of both sides, as models of many languages have it."""
    from multilingual_directories import write_tokenizer

    path = tmp_path_factory.mktemp("tokenizers") / "shared.model"
    write_tokenizer(path, [text for pair in toy_pairs for text in pair])
    return path


@pytest.fixture(scope="session")
def toy_student(toy_pairs: list[tuple[str, str]]) -> Callable[[str, bool], Any]:
    """Return a function that draws a student, "float32" or "int8", with one vocabulary or two."""
    from marian_students import vocabulary_bytes
    from sentencepiece import SentencePieceProcessor
    from synthetic_students import float_student, quantized

    sources, targets = ([pair[side] for pair in toy_pairs] for side in (0, 1))
    vocabulary = partial(vocabulary_bytes, size=400, exact=False)

    @cache
    def toy_student(precision: str, shared: bool) -> Any:
        both = vocabulary(sources + targets) if shared else b""
        sides = (both, both) if shared else (vocabulary(sources), vocabulary(targets))
        student = float_student(*sides, one_table=shared)
        if precision == "float32":
            return student
        tokenizer = SentencePieceProcessor(model_proto=student.source_vocabulary)
        return quantized(student, [[*tokenizer.encode(text), 0] for text in sources[::12]])

    return toy_student


@pytest.fixture(scope="session")
def student_bundle(toy_student: Callable[[str, bool], Any], build_once: BuildOnce) -> Callable[[str, bool], Path]:
    """Return a function that builds the bundle of a toy student, and gives its folder."""
    from xuanzang.export.students import build_bundle

    def student_bundle(precision: str, shared: bool) -> Path:
        def build(folder: Path) -> None:
            student = toy_student(precision, shared)
            build_bundle(student, folder / "student" / "1", source_language="zh", target_language="en")

        return build_once(f"students-{precision}-{shared}", build) / "student" / "1"

    return student_bundle
