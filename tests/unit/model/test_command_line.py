from __future__ import annotations

import io
import json
import re
import signal
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from xuanzang.model.__main__ import main
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.commands import PrepareCommand, TrainCommand, TryCommand
from xuanzang.model.data.metadata import read_metadata
from xuanzang.model.training.machine import stop_on_interrupt

PAIRS = [("我有一只猫", "I have a cat"), ("他看见了那只狗", "He saw that dog"), ("小鸟在树上唱歌", "The bird sings")]


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    return status, *capsys.readouterr()


def write(path: Path, pairs: list[tuple[str, ...]]) -> Path:
    path.write_text("".join("\t".join(columns) + "\n" for columns in pairs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def best(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a very short run, made by the command itself."""
    output = tmp_path_factory.mktemp("run")
    flags = "--preset tiny --max-steps 4 --batch-tokens 256 --no-bf16 --device cpu --threads 1"
    assert main(["train", "--data", str(data), "--output", str(output), *flags.split()]) == 0
    return output / "best"


def test_prepare_takes_several_files_and_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = write(tmp_path / "one.tsv", PAIRS[:1]), write(tmp_path / "two.tsv", PAIRS[1:])  # type: ignore[arg-type]
    three, valid = write(tmp_path / "three.tsv", [("羊", "sheep")]), write(tmp_path / "valid.tsv", [("猫", "cat")])
    train = ("--train", one, two, "--train", three, "--valid", valid, "--output", tmp_path / "data")
    weights = ("--weight", "two=2", "one=1.5", "--weight", "three=0.5")
    status, out, err = run(capsys, "prepare", *train, *weights, "--vocab-size", "303")
    assert status == 0, err
    assert "4 pairs to train on, 1 to validate" in out
    metadata = read_metadata(tmp_path / "data")
    assert dict(zip(metadata.corpora, metadata.weights, strict=True)) == {"one": 1.5, "two": 2.0, "three": 0.5}


def test_evaluate_prints_signed_scores_of_all_and_of_each_group(
    best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = write(
        tmp_path / "test.tsv", [("猫狗", "dog cat", "news"), ("鱼", "fish", "talks"), ("马", "horse", "talks")]
    )
    status, out, _ = run(capsys, "evaluate", best, pairs, "--beam-size", "2")
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[:2] for line in lines] == [
        ["news", "1"],
        ["talks", "2"],
        ["BLEU", lines[2].split()[1]],
        ["chrF", lines[3].split()[1]],
        ["empty", lines[4].split()[1]],
    ]
    assert "|tok:13a|" in lines[2]
    assert "|nc:6|" in lines[3]
    status, out, _ = run(capsys, "evaluate", best, pairs, "--limit", "1")
    assert (status, len(out.splitlines())) == (0, 3)


def test_evaluate_writes_its_figures_for_programs(
    best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = write(tmp_path / "test.tsv", [("猫狗", "dog cat", "pets"), ("鱼", "fish", "sea"), ("狗", "dog", "zoo")])
    (tmp_path / "domains.toml").write_text('land = ["pets", "zoo"]')
    flags = ("--groups", tmp_path / "domains.toml", "--json", tmp_path / "figures.json")
    status, out, err = run(capsys, "evaluate", best, pairs, *flags)
    assert status == 0, err
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert {name: group["sentences"] for name, group in figures["groups"].items()} == {"land": 2, "sea": 1}
    assert f"BLEU {figures['bleu']:.2f}  ({figures['bleu_signature']})" in out


def test_evaluate_names_what_comet_lacks_before_it_translates(
    best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = write(tmp_path / "test.tsv", [("猫狗", "dog cat", "pets")])
    status, out, err = run(capsys, "evaluate", best, pairs, "--comet", tmp_path / "none.ckpt")
    assert (status, out) == (2, "")
    assert "none.ckpt is not a COMET checkpoint" in err
    assert "translating" not in err


def test_a_recipe_gives_flags_and_the_command_line_comes_first(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[train]\npreset = "tiny"\nmax_steps = 2\nbatch_tokens = 256\nbf16 = false\nseed = 7\n')
    run(capsys, "train", "--recipe", recipe, "--data", data, "--output", tmp_path / "run", "--max-steps", "3")
    training = json.loads((tmp_path / "run" / "best" / "training.json").read_text())
    assert (training["step"], training["settings"]["preset"], training["settings"]["seed"]) == (3, "tiny", 7)


def test_a_weight_on_the_command_line_leaves_the_other_weights_of_a_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[prepare]\nweight.news = 2\nweight.laws = 0.5\n")
    given = {"recipe": recipe, "train": [recipe], "output": tmp_path / "data", "valid_share": 0.1}
    command = PrepareCommand.model_validate(given | {"weight": {"laws": "0", "talks": "3"}})
    assert command.weight == {"news": 2, "laws": 0, "talks": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[prepare]", "has no table [train]"),
        ("[train]\nno_such_flag = 1", "--no-such-flag: Extra inputs are not permitted"),
        ("[train]\nmax_steps = 0", "--max-steps: Input should be greater than or equal to 1"),
        ("[train", "recipe.toml: "),
    ],
)
def test_a_wrong_recipe_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(content)
    status, _, err = run(capsys, "train", "--recipe", recipe, "--data", "d", "--output", "o")
    assert status == 2
    assert message in err


FOLDER = Path(__file__).parents[3] / "model" / "recipes"
RECIPES = [path for path in sorted(FOLDER.glob("*/*.toml")) if path.name != "domains.toml"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_is_made_of_flags_that_exist(path: Path) -> None:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    assert tables.keys() <= {"prepare", "train"}
    TrainCommand.model_validate({"recipe": path, "data": "d", "output": "o"})
    if "prepare" in tables:
        PrepareCommand.model_validate({"recipe": path, "train": ["t"], "valid": "v", "output": "o"})


def test_a_shrunk_checkpoint_is_half_as_large_and_translates(
    best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "shrink", best, tmp_path / "small")[0] == 0
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (best, tmp_path / "small")]
    assert sizes[1] < 0.6 * sizes[0]
    assert run(capsys, "try", tmp_path / "small", "猫狗")[0] == 0
    for old, new in zip(
        load_checkpoint(best).model.parameters(), load_checkpoint(tmp_path / "small").model.parameters(), strict=True
    ):
        torch.testing.assert_close(new, old, rtol=2**-8, atol=0)


def test_translate_takes_texts_or_standard_input(
    best: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = run(capsys, "try", best, "猫狗", "鱼", "--num-hypotheses", "2", "--scores")
    assert status == 0
    assert [float(line.split("\t")[0]) <= 0 for line in out.splitlines()] == [True] * 4
    monkeypatch.setattr(sys, "stdin", io.StringIO("猫狗\n鱼\n"))
    from_stdin = run(capsys, "try", best)
    assert from_stdin[:2] == run(capsys, "try", best, "猫狗", "鱼")[:2]


def test_texts_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    monkeypatch.setattr(TryCommand, "run", lambda command: seen.extend(command.texts))
    texts = ["a, b", '[x] "q', "null", "12", "", " ", "a\\", "{}", "我,你", "50% off", "%41", "=", "None"]
    assert run(capsys, "try", "checkpoint", *texts)[0] == 0
    assert seen == texts


def test_attention_writes_numbers(best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "maps.json"
    status, out, _ = run(capsys, "attention", best, "猫狗", "--target", "dog cat", "--output", output)
    assert (status, out.strip()) == (0, str(output))
    assert len(json.loads(output.read_text())["cross_attention"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --data nowhere --output run", "nowhere holds no prepared data"),
        ("train --data d --output o --preset huge", "--preset: Input should be 'tiny', 'small', 'base' or 'big'"),
        ("train --data d --output o --dropout 3", "--dropout: Input should be less than 1, got '3'"),
        ("prepare --train nowhere.tsv --valid nowhere.tsv --output o", "nowhere.tsv: No such file or directory"),
        ("try nowhere x", "nowhere: missing model.safetensors, config.json"),
        ("evaluate nowhere nowhere.tsv", "nowhere.tsv: No such file or directory"),
        ("prepare --train a --valid b --output o --weight a=x", "--weight a: Input should be a valid number"),
        ("try nowhere x --num-hypotheses 5", "xuanzang try: error: num-hypotheses is 5, must be at most beam-size = 4"),
        ("try nowhere x --no-such-flag", "--no-such-flag"),
    ],
)
def test_a_mistake_is_answered_in_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = run(capsys, *arguments.split())
    assert status == 2
    assert message in err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(f"xuanzang {arguments.split(maxsplit=1)[0]}: error: ")
    assert not list(tmp_path.iterdir())


def test_environment_variables_named_like_flags_mean_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEAM_SIZE", "x")
    status, _, err = run(capsys, "try", "nowhere", "x")
    assert status == 2
    assert "nowhere: missing" in err


@pytest.mark.parametrize("command", ["prepare", "train", "evaluate", "try", "shrink", "attention"])
def test_help_explains_every_flag(capsys: pytest.CaptureFixture[str], command: str) -> None:
    status, out, _ = run(capsys, command, "--help")
    assert status == 0
    described = out.split("\noptions:\n", 1)[1]
    for flag in (line.split()[0] for line in described.splitlines() if line.startswith("  --")):
        explanation = described.split(f"  {flag}", 1)[1].split("\n  --", 1)[0]
        assert len(explanation.split()) > 4, flag
    assert not re.search(
        r"^  --\S+ .*\b(int|float|str|list|dict|Path|null)\b(\[|\]|,|\}| {2}|$)", described, re.MULTILINE
    )


def test_the_first_interrupt_sets_the_event_and_the_second_acts_as_usual() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class InterruptingStream(io.StringIO):
    """A terminal at which somebody interrupts the run at the first report of its speed."""

    interrupted = False

    def write(self, text: str) -> int:
        if "target tokens/s" in text and not self.interrupted:
            self.interrupted = True
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def test_an_interrupted_run_saves_and_says_how_to_go_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = "--preset tiny --max-steps 1000000 --batch-tokens 256 --no-bf16 --device cpu --threads 1"
    monkeypatch.setattr(sys, "stderr", stream := InterruptingStream())
    assert run(capsys, "train", "--data", data, "--output", tmp_path, *flags.split())[0] == 130
    assert f"the same command goes on from {tmp_path / 'last'}" in stream.getvalue()
    assert json.loads((tmp_path / "last" / "state.json").read_text())["step"] > 0
