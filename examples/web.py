"""The page: start a server and the gateway, open a browser, and stop both on Ctrl-C.

Run it with `make web`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

from demo import ROOT, free_address

START_SECONDS = 60


def main() -> int:
    """Serve the page until Ctrl-C.

    Returns:
        0 after Ctrl-C, 1 if a program ended by itself.
    """
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8080"
    server, metrics = free_address(), free_address()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    flags = ["--models", "server/models", "--address", server, "--metrics-address", metrics]
    with (
        running("xuanzang.server", *flags) as serving,
        running("xuanzang.gateway", "--server", server, "--address", address, "--log-level", "warning") as answering,
    ):
        programs = (serving, answering)
        try:
            if not has_begun(programs, f"http://{address}/health"):
                return 1
            announce(f"http://{address}/")
            while all(each.poll() is None for each in programs):
                time.sleep(0.5)
        except KeyboardInterrupt:
            print()
            return 0
    return 1


@contextmanager
def running(module: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of ours as a program, and stop it at the end.

    Args:
        module: Name of the module.
        flags: Its flags.

    Yields:
        Its process.
    """
    # In a group of its own, so that Ctrl-C reaches it once, as the SIGTERM below.
    process = subprocess.Popen([sys.executable, "-m", module, *flags], cwd=ROOT, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def has_begun(programs: tuple[subprocess.Popen[bytes], ...], url: str) -> bool:
    """Wait until the gateway says that the server answers.

    Args:
        programs: Processes, of which none may end.
        url: Address of the gateway's health.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if any(each.poll() is not None for each in programs):
            print("a program has ended; its reason is above. Another address: make web WEB_ADDRESS=127.0.0.1:8081")
            return False
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    print(f"no answer within {START_SECONDS} seconds")
    return False


def announce(url: str) -> None:
    """Print the address, and open it where there is a desktop.

    Args:
        url: Address of the page.
    """
    print(f"\nThe page is on {url} (Ctrl-C ends it)\n", flush=True)
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


if __name__ == "__main__":
    sys.exit(main())
