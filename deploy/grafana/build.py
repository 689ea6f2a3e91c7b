"""Writes the dashboards as JSON: python deploy/grafana/build.py [FOLDER]."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from pages import callers, engine, models, service
from panels import dashboard

PAGES = (service.PAGE, engine.PAGE, models.PAGE, callers.PAGE)
DASHBOARDS = Path(__file__).parent / "dashboards"


def main(arguments: Sequence[str]) -> None:
    """Write one file per dashboard.

    Args:
        arguments: The folder to write to, `dashboards` next to this file by default.
    """
    folder = Path(arguments[0]) if arguments else DASHBOARDS
    for page in PAGES:
        text = json.dumps(dashboard(page), cls=JSONEncoder, indent=2, sort_keys=True)
        (folder / f"{page.uid}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
