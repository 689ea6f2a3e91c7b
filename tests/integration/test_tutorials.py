"""The commands of tutorials, run as they stand, with the bundled model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from free_ports import free_port

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"


def blocks(tutorial: str) -> list[str]:
    """Return the shell commands of a tutorial."""
    text = (TUTORIALS / f"{tutorial}.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_a_website_is_translated_with_its_product_names(tmp_path: Path) -> None:
    file = tmp_path / "bin" / "xuanzang"
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xuanzang.command "$@"\n', encoding="utf-8")
    file.chmod(0o755)
    (tmp_path / "server").symlink_to(ROOT / "server")
    script = "\n".join(block for block in blocks("website") if "activate" not in block)
    script = script.replace("50071", str(free_port()))
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "shop" / "en" / "index.html").read_text(encoding="utf-8")
    assert page.count("Skylark") == 4
    assert 'var name = "云雀"' in page
    assert '<a href="visit.html">' in page
    assert not re.search(r"[一-鿿]", page.replace("云雀", ""))
    assert '<p translate="no">北京市海淀区</p>' in (tmp_path / "shop" / "en" / "visit.html").read_text(encoding="utf-8")
    assert "<b>" in done.stdout
    assert done.stdout.count(" 0 asked") == 2
