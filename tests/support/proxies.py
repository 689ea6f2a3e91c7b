"""HAProxy and nginx with the configurations of deploy/, before servers of a test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from free_ports import free_port

from xuanzang.client import TranslationClient

_DEPLOY = Path(__file__).parents[2] / "deploy"
_TEXT = "我有一只猫。"
CONFIGURATIONS = {"haproxy": "haproxy/haproxy.cfg", "nginx": "nginx/nginx.conf"}


@contextmanager
def proxy(name: str, servers: list[str], folder: Path) -> Iterator[str]:
    """Run a proxy with its configuration, but for the addresses, and yield its address."""
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"NOT TESTED: nothing was sent through {name}: apt-get install {name}")
    text = (_DEPLOY / CONFIGURATIONS[name]).read_text(encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    for old, new in zip(("127.0.0.1:50051", "127.0.0.1:50061", "127.0.0.1:50062"), (address, *servers), strict=True):
        assert old in text
        text = text.replace(old, new)
    if name == "nginx":
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        text = text.replace("http {", f"http {{ access_log off; {places}", 1)
    file = folder / "configuration"
    file.write_text(text, encoding="utf-8")
    flags = {
        "haproxy": ["-db", "-f", str(file)],
        "nginx": ["-c", str(file), "-e", "stderr", "-g", f"daemon off; pid {folder}/pid;"],
    }
    with subprocess.Popen([program, *flags[name]]) as process:
        try:
            with TranslationClient(address, wait_for_server=True) as client:
                client.translate_one(_TEXT)
            yield address
        finally:
            process.terminate()
            process.wait()
