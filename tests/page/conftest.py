"""A real Chromium on the page that `make web` serves."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port

ROOT = Path(__file__).parents[2]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1280, 900
TIMEOUT_MILLISECONDS = 20_000


# Only `make e2e` installs the driver, and says so if it cannot.
collect_ignore_glob = [] if importlib.util.find_spec("playwright") else ["test_*.py"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run what `make web` runs, and yield the address of the page."""
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    command = [sys.executable, str(ROOT / "client" / "examples" / "web.py"), address, f"127.0.0.1:{free_port()}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert any(f"http://{address}/" in line for line in process.stdout), "the page was not served"
        yield f"http://{address}/"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a Chromium; each module has its own, because Playwright's event loop must end before those of others."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="NOT TESTED: the page was not opened: no Playwright; `make e2e` installs it"
    )
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("NOT TESTED: the page was not opened: there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        # Its sandbox needs rights that containers lack; the page is ours.
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def faults() -> list[str]:
    """Faults of the page; a test that provokes one takes it out."""
    return []


def watch(page: Any, url: str, faults: list[str]) -> None:
    """Note messages of the console, exceptions, and calls of other origins."""

    def log(message: Any) -> None:
        if message.type in ("error", "warning"):
            faults.append(f"{message.text} {message.location}")

    def ask(request: Any) -> None:
        if not request.url.startswith((url, "blob:")):
            faults.append(f"asked for {request.url}")

    page.on("console", log)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", ask)


@pytest.fixture
def look(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of the browser: by `@pytest.mark.parametrize("look", ..., indirect=True)`."""
    given: dict[str, Any] = getattr(request, "param", {})
    return {"viewport": {"width": WIDTH, "height": HEIGHT}, "locale": "en-US", **given}


@pytest.fixture
def page(browser: Any, url: str, look: dict[str, Any], faults: list[str]) -> Iterator[Any]:
    """Yield the page, open and ready; at the end the console must be empty."""
    context = browser.new_context(**look)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    opened = context.new_page()
    watch(opened, url, faults)
    opened.goto(url)
    opened.wait_for_selector("#target-language option", state="attached")
    yield opened
    context.close()
    assert faults == []
