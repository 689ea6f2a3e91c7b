"""A container engine that is started for a test, and leaves the machine's network as it found it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DOCKER = "/usr/bin/docker"
"""Debian's client, which builds without a plugin."""
PROGRAMS = (DOCKER, "dockerd", "iptables", "iptables-save", "debootstrap", "ip", "tar")
PACKAGES = "docker.io iptables debootstrap iproute2"
BASE = "python:3.11-slim"
START_SECONDS = 60.0
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_RULES = ("iptables", "ip6tables")


def obstacle() -> str | None:
    """Return why no engine can be started here, or None."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no {', '.join(missing)}: apt-get install {PACKAGES}"
    if os.geteuid() != 0:
        return "only root can start an engine"
    if "docker0" in _links():
        return "another engine has docker0, and two would change each other's rules"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running engine."""

    host: str
    """Address for clients, unix://…."""

    def run(self, *arguments: str, **environment: str) -> str:
        """Run a command of the client and return its output.

        Raises:
            subprocess.CalledProcessError: It failed; its messages are on standard error.
        """
        env = {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "1", **environment}
        return subprocess.run([DOCKER, *arguments], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

    def has(self, image: str) -> bool:
        """Return whether the engine has an image."""
        return bool(self.run("images", "--quiet", image).strip())

    def import_base(self, folder: Path) -> None:
        """Make the base image of Debian's packages.

        Args:
            folder: Folder that is not there yet.
        """
        packages = "python3,python3-venv,python3-pip,ca-certificates,g++,wget"
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", folder], check=True)
        archive = f"tar --directory {folder} --create . | {DOCKER} --host {self.host} import - {BASE}"
        subprocess.run(["bash", "-o", "pipefail", "-c", archive], check=True)
        shutil.rmtree(folder)

    def build_around(self, files: Sequence[str], image: str, lines: Sequence[str], context: Path) -> None:
        """Build an image of the base and some files of this machine.

        Args:
            files: Paths of programs, which go to /usr/local/bin, and of folders, which keep their places.
            image: Name and tag.
            lines: Further lines of the Dockerfile.
            context: Folder to build from, which is made.
        """
        context.mkdir(parents=True)
        copies = []
        for path in map(Path, files):
            if path.is_dir():
                shutil.copytree(path, context / path.name)
                copies.append(f"COPY {path.name} {path}")
            else:
                shutil.copy(path, context / path.name)
                copies.append(f"COPY {path.name} /usr/local/bin/")
        (context / "Dockerfile").write_text("\n".join([f"FROM {BASE}", *copies, *lines]), encoding="utf-8")
        self.run("build", "--quiet", "--tag", image, str(context))


@contextmanager
def container_engine(data: Path, scratch: Path) -> Iterator[Engine]:
    """Start an engine, and stop it afterwards.

    Args:
        data: Folder of its images, kept for the next time.
        scratch: Folder of its socket and log.

    Raises:
        ChildProcessError: It does not start; the message has the end of its log.
    """
    rules, forwarding, links = _rules(), _FORWARDING.read_text(), _links()
    flags = ["--data-root", data, "--exec-root", scratch / "exec", "--pidfile", scratch / "pid", "--mtu", "1400"]
    engine = Engine(host=f"unix://{scratch / 'socket'}")
    with (scratch / "log").open("wb") as log:
        process = subprocess.Popen(["dockerd", *map(str, flags), "--host", engine.host], stdout=log, stderr=log)
    try:
        _wait(engine, process, scratch / "log")
        yield engine
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        _restore(rules, forwarding, links)


def _wait(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    command = [DOCKER, "--host", engine.host, "info"]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if process.poll() is not None or time.monotonic() > until:
            raise ChildProcessError(f"dockerd does not start: {log.read_text(encoding='utf-8')[-2000:]}")
        time.sleep(0.2)


def _rules() -> dict[str, dict[str, str]]:
    """Return the rules of each table of both families."""
    return {family: _tables(_output(f"{family}-save")) for family in _RULES}


def _tables(saved: str) -> dict[str, str]:
    return {
        each.group(1): each.group() for each in re.finditer(r"^\*(\w+)$.*?^COMMIT$", saved, re.MULTILINE | re.DOTALL)
    }


def _restore(rules: dict[str, dict[str, str]], forwarding: str, links: set[str]) -> None:
    for family, tables in _rules().items():
        wanted = [rules[family].get(name, _emptied(now)) for name, now in tables.items()]
        subprocess.run([f"{family}-restore"], input="\n".join([*wanted, ""]), text=True, check=True)
    _FORWARDING.write_text(forwarding)
    for link in sorted(_links() - links):
        if link == "docker0" or link.startswith("br-"):
            subprocess.run(["ip", "link", "delete", link], check=True)


def _emptied(table: str) -> str:
    """Return a table with its own chains only, which accept everything."""
    name = table.splitlines()[0]
    chains = [f"{chain} ACCEPT [0:0]" for chain in re.findall(r"^(:\w+) (?:ACCEPT|DROP)", table, re.MULTILINE)]
    return "\n".join([name, *chains, "COMMIT"])


def _links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
