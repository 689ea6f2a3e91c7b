"""A first look: start a server with the bundled models, translate through the Python client, stop the server.

Run it with `make demo`.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.client import TranslationClient

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60
STOP_SECONDS = 30

GROUPS = {
    "Everyday language and software": (
        "我有一只猫。",
        "今天的天气很好，我们去公园吧。",
        "她每天早上六点起床。",
        "你能帮帮我吗？",
        "这本书太难了，我看不懂。",
        "昨天我看了一部很有意思的电影。我非常喜欢。",
        "如果文件不存在，则返回错误。",
        "点击“保存”按钮以应用更改。",
        "hello",
        "Where is the nearest hospital?",
        "My friends and I watched a movie yesterday. We all liked it.",
        "If the file does not exist, an error is returned.",
        "Click the Save button to apply the changes.",
    ),
    "News and names, where these small models are weak": (
        "中国人民银行星期三宣布降低利率。",
        "王小明住在成都，他姐姐在广州工作。",
        "The French president arrived in Beijing on Wednesday.",
        "Mary Smith has worked for Siemens in Munich since 2015.",
    ),
}


def main() -> int:
    """Return the exit status of the server: 0 after a clean shutdown."""
    address = free_address()
    print("Starting a server with the bundled models, Chinese to English and back ...")
    started = time.perf_counter()
    with running_server(address) as server:
        print(f"Serving after {time.perf_counter() - started:.1f} s.")
        with TranslationClient(address) as client:
            for title, sentences in GROUPS.items():
                print(f"\n{title}:\n")
                for sentence in sentences:
                    translate(client, sentence)
            translate_together(client)
        server.send_signal(signal.SIGTERM)
        status = server.wait(STOP_SECONDS)
    print(f"The server finished its work and exited with status {status}.")
    return status


def translate(client: TranslationClient, sentence: str) -> None:
    """Translate a sentence in a separate request; the model is chosen by the detected language."""
    started = time.perf_counter()
    translation = client.translate_one(sentence)
    print(f"  {sentence}\n  {translation.text}   ({1000 * (time.perf_counter() - started):.0f} ms)\n")


def translate_together(client: TranslationClient) -> None:
    """Translate all Chinese sentences in one request, which the server runs as one batch."""
    sentences = [sentence for group in GROUPS.values() for sentence in group if not sentence.isascii()]
    started = time.perf_counter()
    client.translate(sentences)
    print(f"All {len(sentences)} Chinese ones in one request: {1000 * (time.perf_counter() - started):.0f} ms.")


def free_address() -> str:
    """Return "127.0.0.1:port" with a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def running_server(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it is ready; on any failure, kill it and print its log."""
    command = [sys.executable, "-m", "xuanzang.server", "--models", "server/models"]
    command += ["--address", address, "--metrics-address", free_address()]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, cwd=ROOT, stderr=log) as server:
        try:
            wait_until_serving(server, address)
            yield server
        except BaseException:
            server.kill()
            show_log(log)
            raise


def wait_until_serving(server: subprocess.Popen[bytes], address: str) -> None:
    """Ask the standard health service until its status is SERVING.

    Raises:
        SystemExit: The server exited or was not ready in time.
    """
    deadline = time.monotonic() + START_SECONDS
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while server.poll() is None and time.monotonic() < deadline:
            try:
                answer = health.Check(health_pb2.HealthCheckRequest(), timeout=1, wait_for_ready=True)
            except grpc.RpcError:
                continue
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
            time.sleep(0.05)
    raise SystemExit("the server did not start; its log is above")


def show_log(log: IO[bytes]) -> None:
    """Print what the server wrote to its standard error."""
    log.seek(0)
    sys.stderr.write(log.read().decode(errors="replace"))


if __name__ == "__main__":
    raise SystemExit(main())
