"""Test suites of other projects, from their own packages, against a gateway. `make e2e` fetches the packages."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from gateways import running_gateway
from stand_in_server import StandIn, standing_in

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
LIBRETRANSLATE = ROOT / ".venv-libretranslate" / "libretranslate" / "tests" / "test_api"


async def test_libretranslates_own_tests_of_its_api_pass(tmp_path: Path) -> None:
    if not LIBRETRANSLATE.exists():
        pytest.skip("NOT TESTED: LibreTranslate's own tests: `make .venv-libretranslate/ready` fetches them")
    for each in LIBRETRANSLATE.glob("test_*.py"):
        shutil.copy(each, tmp_path)
    shutil.copy(ROOT / "tests" / "support" / "flask_over_http.py", tmp_path / "conftest.py")
    server = StandIn(sources=("en", "es"), targets=("en", "es"))
    async with standing_in(server) as address, running_gateway(address) as gateway:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "GATEWAY_URL": gateway.url},
        )
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert re.search(r"14 passed", output.decode())
