"""Models from a hub by the commands of a user, against a stand-in for it here and its real client library."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_stand_in import HubStandIn, serving
from hub_user import HubUser
from path_like import tree
from tests.integration.conftest import run_each

from xuanzang.server import published

pytest.importorskip("huggingface_hub", reason="needs the extra `hub`")

BUNDLES = Path(__file__).parents[2] / "server" / "models"
READY = "team/zh-en"


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


@pytest.fixture
def user(hub: HubStandIn, tmp_path: Path) -> HubUser:
    """Return a user who has nothing yet."""
    return HubUser(tmp_path, hub)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_bundle_is_pulled_without_torch_and_once(user: HubUser, hub: HubStandIn, ready: Path) -> None:
    first = user.run("pull", READY)
    assert first.returncode == 0, first.stderr
    folder = Path(first.stdout.strip())
    assert folder == user.repository / "zh-en" / ready.name
    assert contents(folder) == contents(ready)
    hub.asked.clear()
    assert user.run("pull", READY).stdout == first.stdout
    assert [each for each in hub.asked if "resolve" in each or "large" in each] == []
    # Without the hub, what is there is good enough; a model that is not there is not.
    again, other = run_each(user, ["pull", READY], ["pull", "team/other"], HF_HUB_OFFLINE="1")
    assert again.stdout == first.stdout
    assert "HF_HUB_OFFLINE is set" in other.stderr


def test_faults_that_pass_end_in_the_whole_model(user: HubUser, hub: HubStandIn, ready: Path) -> None:
    hub.faults += [("/api/models/.*", "503"), ("/api/models/.*", "503"), ("HEAD /.*manifest.json", "503")]
    hub.faults += [("GET /large/.*weights.bin", "cut"), ("/large/.*", "503")]
    done = user.run("pull", READY)
    assert done.returncode == 0, done.stderr
    assert "asking again" in done.stderr
    assert not hub.faults
    assert contents(Path(done.stdout.strip())) == contents(ready)


def test_a_damaged_file_is_refused_and_the_next_run_fetches_it_again(
    user: HubUser, hub: HubStandIn, ready: Path
) -> None:
    hub.faults.append(("GET /large/.*weights.bin", "damage"))
    done, again = run_each(user, *[["pull", READY]] * 2)
    assert done.returncode == 1
    assert "weights.bin of team/zh-en came damaged" in done.stderr
    assert contents(Path(again.stdout.strip())) == contents(ready)


def test_a_bundle_whose_manifest_is_not_true_is_never_served(user: HubUser, hub: HubStandIn, ready: Path) -> None:
    for name in ("contradicted", "leads-out"):
        shutil.copytree(ready, hub.folder / "team" / name)
    card = hub.folder / "team/contradicted" / "MODEL_CARD.md"
    card.write_text(card.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    manifest = hub.folder / "team/leads-out" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"model": "../../elsewhere"}))
    contradicted, leads_out = run_each(user, ["pull", "team/contradicted"], ["pull", "team/leads-out"])
    assert contradicted.returncode == leads_out.returncode == 1
    assert "is not a sound bundle: MODEL_CARD.md has" in contradicted.stderr
    assert "it names itself '../../elsewhere'" in leads_out.stderr
    assert user.served() == []


@pytest.mark.parametrize("place_of_death", ["HEAD /.*manifest.json", "GET /large/.*weights.bin"])
def test_a_pull_that_is_killed_leaves_nothing_to_serve_and_the_next_goes_on(
    user: HubUser, hub: HubStandIn, ready: Path, place_of_death: str
) -> None:
    hub.faults.append((place_of_death, "stop"))
    with user.start("pull", READY) as process:
        hub.stopped.acquire()
        process.kill()
        process.communicate()
    assert user.served() == []
    done = user.run("pull", READY)
    assert done.returncode == 0, done.stderr
    assert contents(Path(done.stdout.strip())) == contents(ready)


@pytest.fixture
def closed_port() -> str:
    """Return an address where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def test_an_unreachable_hub_is_said_in_one_line_and_an_earlier_pull_serves(
    user: HubUser, ready: Path, closed_port: str
) -> None:
    [bundle] = (BUNDLES / "zh-en").iterdir()
    first = user.run("pull", READY)
    commands = (["pull", READY], ["pull", "team/other"], ["push", str(bundle), READY])
    again, *failed = run_each(user, *commands, HF_ENDPOINT=closed_port)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert f"{first.stdout.strip()} is from an earlier pull" in again.stderr
    for done in failed:
        assert (done.returncode, done.stdout) == (1, "")
        assert "Connection refused" in done.stderr.splitlines()[-1]
    assert ["asking again" in done.stderr for done in failed] == [True, False]


def test_an_endpoint_that_is_no_address_is_said_in_one_line(user: HubUser) -> None:
    [bundle] = (BUNDLES / "zh-en").iterdir()
    commands = (["pull", READY], ["push", str(bundle), READY], ["serve", READY, "--yes"])
    for command, endpoint in zip(commands, ("hub.example", "http://[", "http://127.0.0.1:99999"), strict=True):
        [done] = run_each(user, command, HF_ENDPOINT=endpoint)
        assert (done.returncode, done.stdout) == (1, "")
        reason = f"HF_ENDPOINT must be an address such as https://huggingface.co, is {endpoint!r}"
        assert done.stderr.splitlines()[-1] == f"xuanzang {command[0]}: error: {reason}"


def test_no_name_makes_a_pull_delete_models(user: HubUser, hub: HubStandIn, ready: Path) -> None:
    """The model is there already, so the pull would only tidy up."""
    assert user.run("pull", READY).returncode == 0
    before = tree(user.home)
    names = ("..", "../../..", ".", "../zh-en", "/", "")
    for done in run_each(user, *(["pull", READY, "--name", name] for name in names)):
        assert (done.returncode, done.stdout) == (2, "")
        assert "argument --name: a name must be 1 to 63 of a-z" in done.stderr
    assert tree(user.home) == before


def test_a_checkpoint_without_a_name_needs_one_and_one_above_deletes_nothing(user: HubUser, tmp_path: Path) -> None:
    write_config(tmp_path / "模型", model_type="llama")
    (user.home / "letter").write_text("mine")
    write_config(user.repository / "zh-en" / "1", model_type="llama")
    before = tree(user.home)
    nameless, above = run_each(
        user, ["pull", str(tmp_path / "模型")], ["pull", "..", "--repository", str(user.repository)]
    )
    assert nameless.returncode == above.returncode == 1
    assert "has no letter or digit for the name of a bundle: give --name" in nameless.stderr
    assert tree(user.home) | before == tree(user.home)


def write_config(folder: Path, **config: object) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_what_cannot_be_had_is_said_in_one_line(user: HubUser, hub: HubStandIn, ready: Path) -> None:
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
        ("zh-en",): "is a pair of languages; models for it: firefox:zh-en, Helsinki-NLP/opus-mt-zh-en",
        ("a b/c",): "is no name of a model on the hub",
    }
    every = run_each(user, *(["pull", *arguments] for arguments in expected))
    for done, message in zip(every, expected.values(), strict=True):
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr.splitlines()[-1], done.stderr
    with_token = user.run("pull", "team/secret", HF_TOKEN="hf_secret")
    assert "has neither model.safetensors" in with_token.stderr
    assert user.served() == []


def test_a_pushed_bundle_is_the_pulled_one(user: HubUser, hub: HubStandIn) -> None:
    [bundle] = (BUNDLES / "en-zh").iterdir()
    pushed = user.run("push", str(bundle), "team/mine")
    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout == f"team/mine {hub.commit('team/mine')}\n"
    assert (hub.folder / "team/mine/README.md").read_text(encoding="utf-8").startswith("---\nlibrary_name: xuanzang\n")
    pulled = user.run("pull", "team/mine")
    assert pulled.returncode == 0, pulled.stderr
    assert contents(Path(pulled.stdout.strip())) == contents(bundle)


def test_serving_a_name_pulls_it_if_that_is_agreed_to(user: HubUser, hub: HubStandIn, ready: Path) -> None:
    refused = user.run("serve", READY)
    assert refused.returncode == 1
    assert f"{READY} is not in {user.repository}: --yes pulls it" in refused.stderr
    with user.serving(READY, "--yes") as address:
        done = user.run("translate", "--address", address, "我有一只猫。")
        listed = user.run("models", "--address", address, "--json")
    assert done.stdout.strip(), done.stderr
    assert json.loads(listed.stdout)["name"] == "zh-en"


def test_a_translator_of_a_name_has_that_model_alone(user: HubUser, hub: HubStandIn, ready: Path) -> None:
    shutil.copytree(BUNDLES / "en-zh", user.repository / "en-zh")
    code = (
        "from xuanzang.server import Translator\n"
        f"with Translator({READY!r}, workers=1) as one:\n"
        "    print([each.name for each in one.list_models()], one.translate_one('我有一只猫。').text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=user.environment, capture_output=True, text=True, check=False, cwd=user.home
    )
    assert done.stdout.startswith("['zh-en'] "), done.stderr


def test_a_pulled_model_is_found_by_its_name_without_the_hub(
    user: HubUser, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(user.run("pull", READY).stdout.strip())
    monkeypatch.setattr(published, "entry_points", lambda **_: ())
    assert published.published_bundles(READY, user.repository, print) == [folder]
    with pytest.raises(published.HubError, match="cannot be pulled: no package is installed"):
        published.published_bundles("team/other", user.repository, print)


WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@pytest.mark.parametrize(("present", "parts"), [(WEIGHTS, ()), (WEIGHTS[1:], ("a-1", "a-2"))])
def test_only_what_the_family_needs_is_downloaded_safetensors_before_pickles(
    user: HubUser, hub: HubStandIn, present: tuple[str, ...], parts: tuple[str, ...]
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
    done = user.run("pull", "facebook/nllb")
    assert "xuanzang import ended with status 2" in done.stderr, done.stderr
    chosen = present[0]
    suffix = chosen.rpartition(".")[2]
    weights = {f"{chosen}.index.json", *(f"{part}.{suffix}" for part in parts)} if parts else {chosen}
    small = {"config.json", "tokenizer_config.json", "special_tokens_map.json", "sentencepiece.bpe.model"}
    assert {
        each.rpartition("/")[2] for each in hub.asked if each.startswith("GET") and "/api/" not in each
    } == small | weights
    assert user.served() == []
