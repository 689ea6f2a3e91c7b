from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc
from xuanzang.gateway import serving
from xuanzang.gateway.settings import Settings

async def show(self, sockets):
    old = gc.get_freeze_count()
    print(old / (old + len(gc.get_objects())))

serving.GatewayServer.serve = show
serving.serve(Settings(address="127.0.0.1:0", server="127.0.0.1:1"))
"""


def test_a_gateway_that_serves_does_not_collect_among_the_objects_of_its_start() -> None:
    shown = subprocess.run([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert float(shown.stdout) > 0.95
