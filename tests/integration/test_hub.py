"""Models from a hub by the commands of a user, against a stand-in for it here and its real client library."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_stand_in import HubStandIn, serving

pytest.importorskip("huggingface_hub", reason="needs the extra `hub`")

BUNDLES = Path(__file__).parents[2] / "server" / "models"
READY = "team/zh-en"
LIMIT = 30
OPTIONS: dict[str, Any] = {"beam_size": 4, "min_target_length": 0, "max_target_length": LIMIT}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubStandIn]:
    """Answer as a hub that has one bundle."""
    (tmp_path / "hub").mkdir()
    with serving(HubStandIn(tmp_path / "hub")) as running:
        yield running


@pytest.fixture
def ready(hub: HubStandIn) -> Path:
    """Return the bundle that the hub has as READY."""
    [bundle] = (BUNDLES / "zh-en").iterdir()
    shutil.copytree(bundle, hub.folder / READY)
    return bundle


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(hub: HubStandIn, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user who has nothing yet."""
    # The client takes itself for a tool of an assistant where such variables are set, and asks more.
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "TMPDIR")}
    folders = {"HF_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    return inherited | folders | {"HF_ENDPOINT": hub.address, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """Return a function that runs the program."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "xuanzang.command", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment | variables, cwd=tmp_path
        )

    return run


def place(tmp_path: Path) -> Path:
    return tmp_path / "data" / "xuanzang" / "models"


def visible(repository: Path) -> list[str]:
    """Return what a server would find in a folder of models."""
    from xuanzang.server import find_bundles

    return [str(each.relative_to(repository)) for each in find_bundles(repository)] if repository.exists() else []


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_bundle_is_pulled_without_torch_and_once(run: Run, hub: HubStandIn, ready: Path, tmp_path: Path) -> None:
    first = run("pull", READY)
    assert first.returncode == 0, first.stderr
    folder = Path(first.stdout.strip())
    assert folder == place(tmp_path) / "zh-en" / ready.name
    assert contents(folder) == contents(ready)
    hub.asked.clear()
    assert run("pull", READY).stdout == first.stdout
    assert [each for each in hub.asked if "resolve" in each or "large" in each] == []
    # Without the hub, what is there is good enough; a model that is not there is not.
    assert run("pull", READY, HF_HUB_OFFLINE="1").stdout == first.stdout
    assert "HF_HUB_OFFLINE is set" in run("pull", "team/other", HF_HUB_OFFLINE="1").stderr


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ([("GET /large/.*weights.bin", "cut")], ""),
        ([("/api/models/.*", "503"), ("/api/models/.*", "503")], "asking again"),
        ([("HEAD /.*manifest.json", "503"), ("GET /large/.*weights.bin", "cut"), ("/large/.*", "503")], ""),
    ],
)
def test_faults_that_pass_end_in_the_whole_model(
    run: Run, hub: HubStandIn, ready: Path, faults: list[tuple[str, str]], said: str
) -> None:
    hub.faults.extend(faults)
    done = run("pull", READY)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
    assert not hub.faults
    assert contents(Path(done.stdout.strip())) == contents(ready)


def test_a_damaged_file_is_refused_and_the_next_run_fetches_it_again(
    run: Run, hub: HubStandIn, ready: Path, tmp_path: Path
) -> None:
    hub.faults.append(("GET /large/.*weights.bin", "damage"))
    done = run("pull", READY)
    assert done.returncode == 1
    assert "weights.bin of team/zh-en came damaged" in done.stderr
    assert visible(place(tmp_path)) == []
    assert contents(Path(run("pull", READY).stdout.strip())) == contents(ready)


def test_a_bundle_whose_files_contradict_its_manifest_is_never_served(
    run: Run, hub: HubStandIn, ready: Path, tmp_path: Path
) -> None:
    card = hub.folder / READY / "MODEL_CARD.md"
    card.write_text(card.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    done = run("pull", READY)
    assert done.returncode == 1
    assert "is not a sound bundle: MODEL_CARD.md has" in done.stderr
    assert visible(place(tmp_path)) == []


def test_a_manifest_that_leads_out_of_the_folder_is_refused(
    run: Run, hub: HubStandIn, ready: Path, tmp_path: Path
) -> None:
    manifest = hub.folder / READY / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"model": "../../elsewhere"}))
    done = run("pull", READY)
    assert done.returncode == 1
    assert "it names itself '../../elsewhere'" in done.stderr
    assert visible(place(tmp_path)) == []


@pytest.mark.parametrize("place_of_death", ["HEAD /.*manifest.json", "GET /large/.*weights.bin", "GET /large/.*.spm"])
def test_a_pull_that_is_killed_leaves_nothing_to_serve_and_the_next_goes_on(
    environment: dict[str, str], run: Run, hub: HubStandIn, ready: Path, tmp_path: Path, place_of_death: str
) -> None:
    hub.faults.append((place_of_death, "stop"))
    command = [sys.executable, "-m", "xuanzang.command", "pull", READY]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        hub.stopped.acquire()
        process.send_signal(signal.SIGKILL)
    assert visible(place(tmp_path)) == []
    done = run("pull", READY)
    assert done.returncode == 0, done.stderr
    assert contents(Path(done.stdout.strip())) == contents(ready)


def write_config(folder: Path, **config: object) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_what_cannot_be_had_is_said_in_one_line(run: Run, hub: HubStandIn, ready: Path, tmp_path: Path) -> None:
    write_config(hub.folder / "team/flax-only", model_type="marian")
    (hub.folder / "team/flax-only/flax_model.msgpack").touch()
    write_config(hub.folder / "team/llama", model_type="llama")
    (hub.folder / "team/data-only").mkdir()
    write_config(hub.folder / "team/secret", model_type="marian")
    hub.tokens["team/secret"] = "hf_secret"
    expected = {
        ("team/flax-only",): "has neither model.safetensors nor pytorch_model.bin; it has flax_model.msgpack",
        ("team/llama",): "is of the family 'llama', none of those that can be imported",
        ("team/data-only",): "has no config.json",
        ("team/secret",): "only for those who may see it",
        ("team/nowhere",): "the hub has no model team/nowhere",
        (READY, "--revision", "v9"): "has no revision 'v9'",
        ("zh-en",): "is a pair of languages; models for it: Helsinki-NLP/opus-mt-zh-en",
        ("a b/c",): "is no name of a model on the hub",
    }
    for arguments, message in expected.items():
        done = run("pull", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr.splitlines()[-1], done.stderr
        assert "Traceback" not in done.stderr
    with_token = run("pull", "team/secret", HF_TOKEN="hf_secret")
    assert "has neither model.safetensors" in with_token.stderr
    assert visible(place(tmp_path)) == []


def test_a_pushed_bundle_is_the_pulled_one(run: Run, hub: HubStandIn, tmp_path: Path) -> None:
    [bundle] = (BUNDLES / "en-zh").iterdir()
    pushed = run("push", str(bundle), "team/mine")
    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout == f"team/mine {hub.commit('team/mine')}\n"
    assert (hub.folder / "team/mine/README.md").read_text(encoding="utf-8").startswith("---\nlibrary_name: xuanzang\n")
    pulled = run("pull", "team/mine")
    assert pulled.returncode == 0, pulled.stderr
    assert contents(Path(pulled.stdout.strip())) == contents(bundle)


def test_serving_a_name_pulls_it_if_that_is_agreed_to(
    environment: dict[str, str], run: Run, hub: HubStandIn, ready: Path, tmp_path: Path
) -> None:
    flags = ("--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--workers=1")
    refused = run("serve", READY, *flags)
    assert refused.returncode == 1
    assert f"{READY} is not in {place(tmp_path)}: --yes pulls it" in refused.stderr
    command = [sys.executable, "-m", "xuanzang.command", "serve", READY, "--yes", *flags]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        assert server.stderr
        lines = (json.loads(line) for line in server.stderr if line.startswith("{"))
        address = next(f"127.0.0.1:{line['port']}" for line in lines if line["event"] == "listening")
        assert any(line["event"] == "serving" for line in lines)
        done = run("translate", "--address", address, "我有一只猫。")
        listed = run("models", "--address", address, "--json")
        server.terminate()
        server.communicate()
    assert done.stdout.strip(), done.stderr
    assert json.loads(listed.stdout)["name"] == "zh-en"


def test_a_translator_of_a_name_has_that_model_alone(
    run: Run, hub: HubStandIn, ready: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    shutil.copytree(BUNDLES / "en-zh", place(tmp_path) / "en-zh")
    code = (
        "from xuanzang.server import Translator\n"
        f"with Translator({READY!r}, workers=1) as one:\n"
        "    print([each.name for each in one.list_models()], one.translate_one('我有一只猫。').text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.startswith("['zh-en'] "), done.stderr


def test_a_checkpoint_translates_as_in_transformers_after_one_command(
    run: Run, hub: HubStandIn, write_marian: Callable[..., Any], toy_pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    from transformers import MarianMTModel, MarianTokenizer

    from xuanzang.server import Translator

    folder = hub.folder / "Helsinki-NLP" / "opus-mt-zh-en"
    write_marian(folder, never=(1,))
    (folder / "README.md").write_text("---\nlanguage:\n- zh\n- en\nlicense: cc-by-nc-4.0\n---\n# A toy\n")
    (folder / "tf_model.h5").write_bytes(bytes(1000))
    few = ("--precision=float32", "--min-agreement=0", "--parity-sentences=3", "--test-sentences=8")
    done = run("pull", "Helsinki-NLP/opus-mt-zh-en", "--", *few)
    assert done.returncode == 0, done.stderr
    assert "licence cc-by-nc-4.0: commercial use is forbidden" in done.stderr
    assert not any("tf_model" in each for each in hub.asked)
    bundle = Path(done.stdout.strip())
    assert bundle == place(tmp_path) / "opus-mt-zh-en" / "1"
    source = json.loads((bundle / "manifest.json").read_text())["provenance"]["source"]
    assert (source["name"], source["revision"]) == (
        "Helsinki-NLP/opus-mt-zh-en",
        hub.commit("Helsinki-NLP/opus-mt-zh-en"),
    )
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert source["file_sha256"]["model.safetensors"] == weights
    assert weights in (bundle / "MODEL_CARD.md").read_text(encoding="utf-8")
    hub.asked.clear()
    assert run("pull", "Helsinki-NLP/opus-mt-zh-en").stdout == done.stdout
    assert not any("resolve" in each for each in hub.asked)

    sources = [text for text, _ in toy_pairs[::9]][:50]
    with Translator(place(tmp_path), workers=1) as translator:
        [model] = translator.list_models()
        ours = [each.text for each in translator.translate(sources, **OPTIONS)]
    assert (model.licence, model.source_model) == ("cc-by-nc-4.0", "Helsinki-NLP/opus-mt-zh-en")
    theirs = MarianMTModel.from_pretrained(folder)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    assert ours == texts_of_transformers(theirs, tokenizer, sources)


def texts_of_transformers(model: Any, tokenizer: Any, sources: list[str], **options: object) -> list[str]:
    import torch

    with torch.inference_mode():
        found = model.generate(
            **tokenizer(sources, return_tensors="pt", padding=True),
            max_new_tokens=LIMIT,
            num_beams=4,
            do_sample=False,
            length_penalty=1.0,
            early_stopping=True,
            **options,
        )
    texts: list[str] = tokenizer.batch_decode(found, skip_special_tokens=True)
    return texts


WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@pytest.mark.parametrize(
    ("present", "parts"),
    [(WEIGHTS, ()), (WEIGHTS[1:], ()), (WEIGHTS[:1], ("a-1", "a-2")), (WEIGHTS[1:], ("a-1", "a-2"))],
)
def test_only_what_the_family_needs_is_downloaded_safetensors_before_pickles(
    run: Run, hub: HubStandIn, tmp_path: Path, present: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    folder = hub.folder / "facebook" / "nllb"
    write_config(folder, model_type="m2m_100")
    others = ("tf_model.h5", "rust_model.ot", "tokenizer.json", "onnx.model")
    for name in ("sentencepiece.bpe.model", "special_tokens_map.json", *others):
        (folder / name).write_text("{}", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"added_tokens_decoder": {"1": {}}}', encoding="utf-8")
    for name in present:
        for part in parts:
            (folder / f"{part}.{name.rpartition('.')[2]}").write_bytes(f"no weights: {part}".encode())
        placed = {part: f"{part}.{name.rpartition('.')[2]}" for part in parts}
        (folder / (f"{name}.index.json" if parts else name)).write_text(json.dumps({"weight_map": placed}))
    done = run("pull", "facebook/nllb")
    assert "xuanzang import ended with status 2" in done.stderr, done.stderr
    chosen = present[0]
    suffix = chosen.rpartition(".")[2]
    weights = {f"{chosen}.index.json", *(f"{part}.{suffix}" for part in parts)} if parts else {chosen}
    small = {"config.json", "tokenizer_config.json", "special_tokens_map.json", "sentencepiece.bpe.model"}
    assert {
        each.rpartition("/")[2] for each in hub.asked if each.startswith("GET") and "/api/" not in each
    } == small | weights
    assert visible(place(tmp_path)) == []
