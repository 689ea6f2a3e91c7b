"""The page: start a server and the gateway, open a browser, and stop both on Ctrl-C.

Run it with `make web`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

from demo import ROOT, free_address, wait_until_serving

START_SECONDS = 60


def main() -> int:
    """Serve the page until Ctrl-C.

    Returns:
        0 after Ctrl-C, 1 if a program ended.
    """
    defaults = ["127.0.0.1:8080", "127.0.0.1:50051"]
    page, server = [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return serve(page, server)
    except KeyboardInterrupt:
        print()
        return 0


def serve(address: str, server: str) -> int:
    """Run both programs until one ends.

    Args:
        address: Host and port of the page.
        server: Host and port of the gRPC service.

    Returns:
        1, because a program that ends has failed.
    """
    if is_taken(address):
        print(f"{address} is taken; serve the page elsewhere: make web WEB_ADDRESS=127.0.0.1:8081")
        return 1
    if is_taken(server):
        print(f"{server} is taken; serve elsewhere: make web ADDRESS=127.0.0.1:50061")
        return 1
    print("Starting a server with the bundled models and the page ...", flush=True)
    metrics = free_address()
    flags = ["--models", "server/models", "--address", server, "--metrics-address", metrics]
    with running("xuanzang.server", *flags) as serving:
        wait_until_serving(serving, server)
        with running("xuanzang.gateway", "--server", server, "--address", address) as answering:
            programs = (serving, answering)
            if has_begun(programs, address):
                announce(f"http://{address}/", server)
                while all(each.poll() is None for each in programs):
                    time.sleep(0.5)
    return 1


def is_taken(address: str) -> bool:
    """Return whether another program listens on an address.

    Args:
        address: Host and port.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_server((host, int(port))).close()
    except OSError:
        return True
    return False


@contextmanager
def running(module: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of ours as a program, and stop it at the end.

    Yields:
        Its process.
    """
    command = [sys.executable, "-m", module, *flags, "--log-level", "warning"]
    # In a separate group, so that Ctrl-C does not reach it before the SIGTERM below.
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def has_begun(programs: tuple[subprocess.Popen[bytes], ...], address: str) -> bool:
    """Wait until the gateway says that the server answers.

    Args:
        programs: Processes; the wait ends if one of them does.
        address: Host and port of the gateway.
    """
    url = f"http://{address}/health"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and all(each.poll() is None for each in programs):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    print("the gateway did not start; the reason is above")
    return False


def announce(url: str, server: str) -> None:
    """Print the addresses, and open the page where there is a desktop.

    Args:
        url: Address of the page.
        server: Host and port of the gRPC service.
    """
    option = "" if server.endswith(":50051") else f" --address {server}"
    print(f"\nThe page is on {url} (Ctrl-C ends it)")
    print(f"In another terminal: .venv-demo/bin/xuanzang translate{option} 你好\n", flush=True)
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


if __name__ == "__main__":
    sys.exit(main())
