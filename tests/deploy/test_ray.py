"""The service and the batch on a Ray cluster of this machine, which `make e2e` installs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from free_ports import free_port

from xuanzang.batch.__main__ import main
from xuanzang.client import InvalidRequestError, ModelNotFoundError, TranslationClient, TranslationError, Usage
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1.translation_pb2_grpc import TranslationServiceStub

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-peers" / "ray" / "bin"
RAY = ROOT / "deploy" / "ray"
MODELS = ROOT / "server" / "models"
# Paths of the environment that runs the tests would hide the packages of Ray's own.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_ADDRESS": "local",
    # Seconds that Serve gives its proxy, which starts beside whatever else the machine does.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
}
STARTS = 3
"""Ray gives up a node that has not started after 30 seconds, and no setting changes that."""


def require_ray() -> None:
    if not (BIN / "ray").exists():
        pytest.skip("NOT TESTED: nothing was translated on Ray: there is none: `.ci/peers ray` installs it")


def sentences(count: int) -> list[str]:
    lines = (ROOT / "benchmarks" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    return list(islice(cycle(line.split("\t")[0] for line in lines), count))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    rows = [json.dumps({"id": number, "text": text}) for number, text in enumerate(sentences(200))]
    path.write_text("\n".join([*rows[:-1], "{}"]) + "\n", encoding="utf-8")
    return path


def options(corpus: Path, output: Path) -> list[str]:
    chosen = ["--models", str(MODELS), "--model", "zh-en"]
    return [str(corpus), str(output), *chosen, "--shard-rows", "20", "--beam-size", "1", "--quiet"]


def on_ray(corpus: Path, output: Path) -> subprocess.Popen[str]:
    command = [str(BIN / "xuanzang"), "batch", *options(corpus, output), "--engine", "ray", "--workers", "2"]
    return subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True, stdout=subprocess.PIPE, text=True)


def kill_after_a_shard(corpus: Path, output: Path) -> None:
    """Run the batch on Ray until a shard is finished, and kill it and all its processes."""
    for _ in range(STARTS):
        process = on_ray(corpus, output)
        while process.poll() is None:
            if list(output.with_name(f"{output.name}.job").glob("parts/*.json")):
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
    pytest.fail(f"Ray did not start; the batch ended with {process.returncode}")


def resume(corpus: Path, output: Path) -> str:
    """Give the command again until it has ended the job, and return what it prints."""
    for _ in range(STARTS):
        printed, _ = (process := on_ray(corpus, output)).communicate()
        if output.exists():
            # One line of the corpus has no text.
            assert process.returncode == 1
            return printed
    pytest.fail(f"the batch ended with {process.returncode}")


def test_a_batch_killed_on_ray_loses_and_doubles_no_line(tmp_path: Path, corpus: Path) -> None:
    require_ray()
    output, local = tmp_path / "output.jsonl", tmp_path / "local.jsonl"
    kill_after_a_shard(corpus, output)
    assert not output.exists()
    assert resume(corpus, output).startswith("200 lines, ")
    assert main(["batch", *options(corpus, local)]) == 1
    assert output.read_bytes() == local.read_bytes()
    failures = [(tmp_path / f"{name}.failed.jsonl").read_bytes() for name in ("output.jsonl", "local.jsonl")]
    assert failures[0] == failures[1] != b""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_ray()
    tmp_path = tmp_path_factory.mktemp("serve")
    config: dict[str, Any] = yaml.safe_load((RAY / "serve.yaml").read_text(encoding="utf-8"))
    config["grpc_options"]["port"] = free_port()
    config["http_options"]["port"] = free_port()
    config["applications"][0]["args"] |= {"models": str(tmp_path / "models")}
    # Of both bundled models only one, because this environment detects no languages.
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "zh-en").symlink_to(MODELS / "zh-en")
    path = tmp_path / "serve.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"127.0.0.1:{config['grpc_options']['port']}"
    with ExitStack() as stack:
        process = next(filter(None, (deployed(path, address, stack) for _ in range(STARTS))), None)
        assert process is not None, (tmp_path / "serve.log").read_text(encoding="utf-8")[-2000:]
        yield address


def deployed(config: Path, address: str, stack: ExitStack) -> subprocess.Popen[bytes] | None:
    """Run Serve, and wait until the application is deployed; return None if Serve ends before."""
    command = [str(BIN / "serve"), "run", str(config)]
    with config.with_name("serve.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=RAY, env=ENVIRONMENT, start_new_session=True, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.send_signal, signal.SIGINT)
    with TranslationClient(address, timeout=10) as client:
        for _ in range(300):
            try:
                client.list_models()
            except TranslationError:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                    return None
            else:
                return process
    pytest.fail("the application was not deployed; serve.log has the reason")


def test_the_unchanged_client_translates_through_the_proxy_of_serve(address: str) -> None:
    with TranslationClient(address, timeout=60) as client:
        assert client.translate_one("我有一只猫。").text == "I have a cat."
        assert [model.name for model in client.list_models()] == ["zh-en"]
        texts = sentences(100)
        streamed = [item.translation.text for item in client.translate_stream(texts, ordered=True)]
        assert streamed == [translation.text for translation in client.translate(texts)]
        parts = list(client.translate_progressively("今天天气很好，我们去公园吧。"))
        assert parts[-1].translation is not None
        assert "".join(part.text_delta for part in parts) == parts[-1].translation.text
        refuses_with_details(client)


def test_every_rpc_has_an_answer_or_the_status_unimplemented(address: str) -> None:
    used: list[Usage] = []
    with TranslationClient(address, timeout=60, on_usage=used.append) as client:
        client.translate_one("我有一只猫。")
        assert used == [Usage(characters=6, sentences=1)]
        assert client.explain("我有一只猫。").translation.text == "I have a cat."
        with pytest.raises(TranslationError, match="languages are not detected"):
            client.detect_languages(["我有一只猫。"])
    with grpc.insecure_channel(address) as channel:
        stub = TranslationServiceStub(channel)
        assert list(stub.ListGlossaries(pb.ListGlossariesRequest()).glossaries) == []
        with pytest.raises(grpc.RpcError) as refused:
            stub.CreateGlossary(pb.CreateGlossaryRequest())
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def refuses_with_details(client: TranslationClient) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        client.translate_one("猫", beam_size=17)
    assert [fault.field for fault in refused.value.violations] == ["options.beam_size"]
    with pytest.raises(ModelNotFoundError):
        client.translate_one("猫", model="xx")
    bad, good = client.translate_stream(["猫" * 20_001, "我有一只猫。"], ordered=True)
    assert isinstance(bad.error, InvalidRequestError)
    assert good.translation.text == "I have a cat."
    # Errors that end a stream keep their message and lose their details: docs/batch.md says so.
    with pytest.raises(InvalidRequestError, match="beam_size: must be 1 to 16") as ended:
        list(client.translate_progressively("猫", beam_size=17))
    assert ended.value.violations == ()
