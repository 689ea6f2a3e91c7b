"""Suites of other projects, counted against a gateway in front of a server that stands in.

`python tests/support/peer_suites.py` runs them and writes the table of docs/lab/suites.md; `.ci/peers triton
kserve libretranslate` installs their packages. `make e2e` compares the table with a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gateways import running_gateway
from recorded_suite import recorded_phrases, replayed, stand_in
from stand_in_server import StandIn, standing_in

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lab" / "suites.md"
LIBRETRANSLATE = ROOT / ".venv-peers" / "libretranslate" / "libretranslate" / "tests" / "test_api"
KSERVE = ROOT / ".venv-peers" / "kserve" / "bin" / "python"
TRITON = ROOT / ".venv-peers" / "triton" / "bin" / "python"
_HEAD = "| suite | how it runs | passed | failed | skipped |\n|---|---|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(\|.*\n)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Outcomes of the tests of a suite."""

    suite: str
    how: str
    passed: int
    failed: int
    skipped: int
    faults: str = ""
    """Failures, for people."""

    @property
    def row(self) -> str:
        """Row of the table."""
        total = self.passed + self.failed + self.skipped
        return f"| {self.suite} | {self.how} | {self.passed} of {total} | {self.failed} | {self.skipped} |\n"


async def deepl_python() -> Count:
    """Count deepl-python's tests, whose requests are recorded."""
    async with standing_in(stand_in(recorded_phrases())) as address, running_gateway(address) as gateway:
        outcomes = await asyncio.to_thread(replayed, gateway.url)
    counts = Counter(outcomes.values())
    return Count(
        suite="deepl-python 1.30.0, `tests`, as for DeepL's mock server",
        how="its requests, recorded",
        passed=counts["passed"],
        failed=counts["failed"] + counts["changed"],
        skipped=counts["skipped"],
        faults="\n".join(test for test, outcome in outcomes.items() if outcome == "changed"),
    )


async def libretranslate() -> Count:
    """Count LibreTranslate's tests of its API, from its own package."""
    server = StandIn(sources=("en", "es"), targets=("en", "es"))
    with tempfile.TemporaryDirectory() as folder:
        for each in LIBRETRANSLATE.glob("test_*.py"):
            shutil.copy(each, folder)
        shutil.copy(ROOT / "tests" / "support" / "flask_over_http.py", Path(folder) / "conftest.py")
        async with standing_in(server) as address, running_gateway(address) as gateway:
            output = await _output(
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", folder),
                folder=Path(folder),
                settings={**os.environ, "GATEWAY_URL": gateway.url},
            )
    found = {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|error|skipped)", output)}
    return Count(
        suite="LibreTranslate 1.9.6, `tests/test_api`",
        how="from its package",
        passed=found.get("passed", 0),
        failed=found.get("failed", 0) + found.get("error", 0),
        skipped=found.get("skipped", 0),
        faults=output,
    )


async def tritonclient() -> list[Count]:
    """Count the methods of Triton's clients that reach a server."""
    return await _by_program(
        TRITON, "triton_methods.py", "tritonclient 2.73.0", "each public method that reaches a server"
    )


async def kserve() -> list[Count]:
    """Count the calls of KServe's SDK."""
    return await _by_program(
        KSERVE, "kserve_calls.py", "kserve 0.21.0", "health, and inference in both forms of tensors"
    )


async def _by_program(python: Path, script: str, package: str, calls: str) -> list[Count]:
    async with (
        standing_in(StandIn(sources=("en",), targets=("de",))) as address,
        running_gateway(address, grpc_address="127.0.0.1:0") as gateway,
    ):
        path = ROOT / "tests" / "support" / script
        # This project's folders are not for that environment.
        output = await _output(python, path, gateway.grpc_address, gateway.url, "tiny", folder=ROOT, settings={})
    return [
        Count(
            suite=f"{package} over {carrier}: {calls}",
            how="from its package, by a program",
            passed=sum(not error for error in errors.values()),
            failed=sum(bool(error) for error in errors.values()),
            skipped=0,
            faults="\n".join(f"{name}: {error}" for name, error in errors.items() if error),
        )
        for carrier, errors in json.loads(output).items()
    ]


async def _output(*command: str | Path, folder: Path, settings: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=asyncio.subprocess.PIPE, env=settings)
    output, _ = await process.communicate()
    return output.decode()


def table(counts: list[Count]) -> str:
    """Return the table of the page."""
    return _HEAD + "".join(each.row for each in counts)


def written_table() -> str:
    """Return the table that the page has."""
    found = _TABLE.search(PAGE.read_text())
    return found[0] if found else ""


async def main() -> None:
    """Run all suites, write the table, and print what failed."""
    counts = [await deepl_python(), await libretranslate(), *await tritonclient(), *await kserve()]
    PAGE.write_text(PAGE.read_text().replace(written_table(), table(counts)))
    for each in counts:
        print(each.row + (each.faults if each.failed else ""))


if __name__ == "__main__":
    asyncio.run(main())
