"""A tour of the service: start a server, translate through the Python client, read metrics, stop the server.

Run it with `make demo`.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.client import TranslationClient

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60
STOP_SECONDS = 30

CHINESE = (
    "我有一只猫。",
    "今天天气很好。",
    "她每天早上六点起床。",
    "你能帮我一个忙吗？",
    "我们明天去北京。",
    "这本书太难了，我看不懂。",
    "如果文件不存在，则返回错误。",
    "点击“保存”按钮以应用更改。",
    "昨天我和朋友去看了一场电影。电影很有意思，我们都很喜欢。",
    # What the bundled models are weak at: news, names, idioms.
    "中国人民银行星期三宣布降低利率。",
    "王小明住在成都，他姐姐在广州工作。",
    "塞翁失马，焉知非福。",
)

ENGLISH = (
    "I have a cat.",
    "If the file does not exist, an error is returned.",
    "Click the Save button to apply the changes.",
    "We watched a film with friends yesterday. It was very interesting.",
    "The central bank announced on Wednesday that it would lower interest rates.",
    "Don't count your chickens before they hatch.",
)

METRICS = (
    'grpc_server_handled_total{grpc_code="OK",grpc_method="TranslateText"',
    "nmt_sentences_total",
    "nmt_source_tokens_total",
    "nmt_target_tokens_total",
    "nmt_batch_rows_count",
    "nmt_decode_step_duration_seconds_sum",
    "nmt_decode_step_duration_seconds_count",
)


def main() -> int:
    """Run the demonstration.

    Returns:
        Exit status of the server: 0 after a clean shutdown.
    """
    address, metrics_address = free_address(), free_address()
    with running_server(address, metrics_address) as server:
        with TranslationClient(address) as client:
            translate_one_by_one(client, CHINESE, "zh", "en")
            translate_together(client, CHINESE, "zh", "en")
            translate_one_by_one(client, ENGLISH, "en", "zh")
        show_metrics(metrics_address)
        server.send_signal(signal.SIGTERM)
        status = server.wait(STOP_SECONDS)
    print(f"\nSIGTERM: the server finished its work and exited with status {status}")
    return status


def free_address() -> str:
    """Find a free port on the loopback interface.

    Returns:
        "127.0.0.1:port".
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def running_server(address: str, metrics_address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it is ready; on any failure, kill it and print its log.

    Args:
        address: Host and port of the gRPC service.
        metrics_address: Host and port of the metrics endpoint.

    Yields:
        The server's process.
    """
    command = [sys.executable, "-m", "xuanzang.server", "--models", "server/models"]
    command += ["--address", address, "--metrics-address", metrics_address]
    print("$", "python", *command[1:])
    started = time.perf_counter()
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, cwd=ROOT, stderr=log) as server:
        try:
            wait_until_serving(server, address)
            print(f"serving after {time.perf_counter() - started:.1f} s\n")
            yield server
        except BaseException:
            server.kill()
            show_log(log)
            raise


def wait_until_serving(server: subprocess.Popen[bytes], address: str) -> None:
    """Poll the standard health service until its status is SERVING.

    Args:
        server: The server's process.
        address: Host and port of the gRPC service.

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


def translate_one_by_one(client: TranslationClient, sentences: Sequence[str], source: str, target: str) -> None:
    """Translate each sentence in its own request and print the result with score and time.

    Args:
        client: A client of the running server.
        sentences: Sentences in one language.
        source: Code of that language.
        target: Code of the language to translate into.
    """
    for sentence in sentences:
        started = time.perf_counter()
        translation = client.translate_one(sentence, source_language=source, target_language=target, return_scores=True)
        milliseconds = 1000 * (time.perf_counter() - started)
        print(f"{sentence}\n    {translation.text}")
        print(f"    score {translation.hypotheses[0].score:.2f}, {milliseconds:.0f} ms")


def translate_together(client: TranslationClient, sentences: Sequence[str], source: str, target: str) -> None:
    """Translate all sentences in one request, which the server runs as one batch.

    Args:
        client: A client of the running server.
        sentences: Sentences in one language.
        source: Code of that language.
        target: Code of the language to translate into.
    """
    started = time.perf_counter()
    client.translate(sentences, source_language=source, target_language=target)
    milliseconds = 1000 * (time.perf_counter() - started)
    print(f"\nall {len(sentences)} in one request: {milliseconds:.0f} ms\n")


def show_metrics(address: str) -> None:
    """Print a few of the metrics that Prometheus would scrape.

    Args:
        address: Host and port of the metrics endpoint.
    """
    url = f"http://{address}/metrics"
    print(f"\n$ curl {url}")
    with urllib.request.urlopen(url, timeout=10) as response:
        for line in response.read().decode().splitlines():
            if line.startswith(METRICS) and not line.endswith(" 0.0"):
                print(line)


def show_log(log: IO[bytes]) -> None:
    """Print what the server logged.

    Args:
        log: The file that holds the server's standard error.
    """
    log.seek(0)
    sys.stderr.write(log.read().decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(main())
