"""Checkpoints of every family, as they are published: pulled, served, and equal to transformers in every text."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("huggingface_hub", reason="needs the extra `hub`")

from hub_stand_in import HubStandIn, serving
from hub_user import HubUser
from published_layouts import LAYOUTS, write_tokenizers

from xuanzang.client import TranslationClient

MARIAN, NLLB = "Helsinki-NLP/opus-mt-zh-en", "facebook/nllb-200-3.3B"
# Random weights have nothing to lose in int8, and a few sentences show that the graphs are right.
FEW = ("--precision=float32", "--min-agreement=0", "--parity-sentences=3", "--test-sentences=8")
LANGUAGES: dict[str, Any] = {"source_language": "zh", "target_language": "en"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubStandIn]:
    """Answer as a hub to which nobody has published anything yet."""
    with serving(HubStandIn(tmp_path_factory.mktemp("hub"))) as running:
        yield running


@pytest.fixture(scope="module")
def tokenizers(toy_pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the tokenisers of all layouts."""
    folder = tmp_path_factory.mktemp("tokenizers")
    write_tokenizers(folder, toy_pairs)
    return folder


@pytest.fixture
def user(hub: HubStandIn, tmp_path: Path) -> HubUser:
    """Return a user who has nothing yet."""
    return HubUser(tmp_path, hub)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Leave the other cores to other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def publish(hub: HubStandIn, name: str, tokenizers: Path) -> Path:
    folder = hub.folder / name
    if not folder.exists():
        folder.mkdir(parents=True)
        LAYOUTS[name].write(tokenizers, folder)
    return folder


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each == NLLB else pytest.mark.slow) for each in LAYOUTS]
)
def test_a_published_checkpoint_is_pulled_served_and_equal_to_transformers(
    hub: HubStandIn, user: HubUser, tokenizers: Path, toy_pairs: list[tuple[str, str]], name: str
) -> None:
    folder, layout = publish(hub, name, tokenizers), LAYOUTS[name]
    done = user.run("pull", name, "--", *FEW)
    assert done.returncode == 0, done.stderr
    sources = [text for text, _ in toy_pairs[::9]][:50]
    search: dict[str, Any] = {"beam_size": 4, "min_target_length": 0, "max_target_length": layout.target_limit}
    with user.serving() as address, TranslationClient(address) as client:
        ours = [each.text for each in client.translate(sources, **LANGUAGES, **search)]
    theirs = layout.translate(folder, sources)
    assert len(set(theirs)) > 20, "the weights are too dull to show anything"
    assert ours == theirs


def test_a_pulled_bundle_says_what_it_was_made_of_and_is_not_made_twice(
    hub: HubStandIn, user: HubUser, tokenizers: Path
) -> None:
    folder = publish(hub, MARIAN, tokenizers)
    hub.asked.clear()
    done = user.run("pull", MARIAN, "--", *FEW)
    assert done.returncode == 0, done.stderr
    assert "licence cc-by-nc-4.0: commercial use is forbidden" in done.stderr
    assert not any("tf_model" in each for each in hub.asked)
    bundle = Path(done.stdout.strip())
    assert bundle == user.repository / "opus-mt-zh-en" / "1"
    source = json.loads((bundle / "manifest.json").read_text())["provenance"]["source"]
    assert (source["name"], source["revision"], source["licence"]) == (MARIAN, hub.commit(MARIAN), "cc-by-nc-4.0")
    weights = hashlib.sha256((folder / "pytorch_model.bin").read_bytes()).hexdigest()
    assert source["file_sha256"]["pytorch_model.bin"] == weights
    assert weights in (bundle / "MODEL_CARD.md").read_text(encoding="utf-8")
    hub.asked.clear()
    assert user.run("pull", MARIAN).stdout == done.stdout
    assert not any("resolve" in each for each in hub.asked)


DYING = str(Path(__file__).parents[1] / "support" / "dying")


def dying(user: HubUser, command: str, at: int, victim: str = "group") -> dict[str, str]:
    """Return the variables with which a command dies before a change of the file system."""
    path = os.pathsep.join(filter(None, (DYING, user.environment.get("PYTHONPATH"))))
    named = {
        "command": command,
        "at": str(at),
        "victim": victim,
        "log": str(user.home.parent / f"changes-{user.home.name}"),
    }
    return {"PYTHONPATH": path} | {f"DYING_{name.upper()}": value for name, value in named.items()}


def files_of(bundle: Path) -> dict[str, bytes]:
    """Return what does not tell when a bundle was made."""
    return {path.name: path.read_bytes() for path in bundle.iterdir() if path.suffix in (".onnx", ".bin", ".spm")}


def spread(count: int, points: int) -> list[int]:
    return sorted({1 + round(number * (count - 1) / (points - 1)) for number in range(points)})


@pytest.mark.slow
def test_a_pull_killed_at_any_change_serves_nothing_half_made_and_goes_on(
    hub: HubStandIn, tokenizers: Path, tmp_path: Path
) -> None:
    publish(hub, MARIAN, tokenizers)
    undisturbed, user = HubUser(tmp_path / "undisturbed", hub), HubUser(tmp_path / "user", hub)
    for each in (undisturbed, user):
        each.home.mkdir()
    done = undisturbed.run("pull", MARIAN, "--", *FEW, **dying(undisturbed, "pull", 0))
    whole = Path(done.stdout.strip())
    killed = 0
    # The pull itself begins anew each time: what it has downloaded it does not write again.
    for command, points in (("import", 4), ("export", 6), ("pull", 5)):
        changes = (tmp_path / f"changes-undisturbed.{command}").read_text(encoding="utf-8").splitlines()
        for at in spread(len(changes), points):
            if command == "pull" or at == 1:
                shutil.rmtree(user.home)
                user.home.mkdir()
            with user.start("pull", MARIAN, "--", *FEW, **dying(user, command, at)) as process:
                process.communicate()
            killed += process.returncode == -signal.SIGKILL
            for bundle in user.served():
                assert files_of(user.repository / bundle) == files_of(whole), (command, at)
        done = user.run("pull", MARIAN, "--", *FEW)
        assert done.returncode == 0, done.stderr
        assert user.served() == ["opus-mt-zh-en/1"]
        assert files_of(Path(done.stdout.strip())) == files_of(whole)
    assert killed >= 13, "all but the last changes are there each time"
    left = [path.name for path in (user.repository / ".pulling").iterdir()]
    assert left == [".opus-mt-zh-en.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["import", "export"])
def test_a_command_that_outlives_its_pull_is_waited_for(
    hub: HubStandIn, user: HubUser, tokenizers: Path, command: str
) -> None:
    publish(hub, MARIAN, tokenizers)
    variables = dying(user, command, 1, "parent")
    gate = f"{variables['DYING_LOG']}.gate"
    os.mkfifo(gate)
    with user.start("pull", MARIAN, "--", *FEW, **variables) as process:
        assert process.wait() == -signal.SIGKILL
        with user.start("pull", MARIAN, "--", *FEW) as waiting:
            assert waiting.stderr
            assert any("waiting for it" in line for line in waiting.stderr)
            os.close(os.open(gate, os.O_WRONLY))
            _, errors = waiting.communicate()
        assert waiting.returncode == 0, errors
        process.communicate()
    assert user.served() == ["opus-mt-zh-en/1"]
