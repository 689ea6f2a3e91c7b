"""Pictures of the page for README and docs, from the real page: a server, the gateway and Chromium.

Run it with `python client/examples/pictures.py`; the pictures lie in `docs/pictures`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from demo import ROOT, free_address
from playwright.sync_api import sync_playwright

PICTURES = ROOT / "docs" / "pictures"
MAX_BYTES = 200_000
"""Size that a page of documentation can bear."""
SOURCE = "他在北京工作了五年，去年搬到了上海。这家餐厅的菜很好吃，价格也不贵。"
OPENED = "very"
"""Word whose alternatives are shown; another model may write another, and then it is one in the middle."""
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SCREEN = {"width": 1280, "height": 760}
_PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
LOOKS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "page-light": {"viewport": _SCREEN, "color_scheme": "light"},
        "page-dark": {"viewport": _SCREEN, "color_scheme": "dark"},
        "phone": {**_PHONE, "color_scheme": "light"},
    }
)
"""Options of the browser by the name of the picture."""


@contextmanager
def served() -> Iterator[str]:
    """Run what `make web` runs.

    Yields:
        Address of the page.
    """
    address = free_address()
    command = [sys.executable, str(ROOT / "client" / "examples" / "web.py"), address]
    environment = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        if process.stdout is None or not any(f"http://{address}/" in line for line in process.stdout):
            raise RuntimeError("the page was not served")
        try:
            yield f"http://{address}/"
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()


def take(page: Any, url: str, path: Path) -> None:
    """Translate a text, open a word of it, and take a picture.

    Args:
        url: Address of the page.
        path: File of the picture.
    """
    page.goto(url)
    page.wait_for_selector("#target-language option", state="attached")
    page.fill("#source", SOURCE)
    page.wait_for_selector("#verdict .level")
    words = page.locator(".word").all_text_contents()
    page.locator(".word").nth(words.index(OPENED) if OPENED in words else len(words) // 2).click()
    page.wait_for_selector(".offer")
    page.mouse.move(0, 0)
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=path, animations="disabled")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise RuntimeError(f"{path.name} has {size} bytes, at most {MAX_BYTES} are wanted")


def main() -> None:
    """Take all pictures."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        sys.exit("there is no Chromium: apt-get install chromium")
    PICTURES.mkdir(exist_ok=True)
    with served() as url, sync_playwright() as playwright:
        # Its sandbox needs rights that containers lack; the page is ours.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, look in LOOKS.items():
            context = browser.new_context(locale="en-US", **look)
            take(context.new_page(), url, PICTURES / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
