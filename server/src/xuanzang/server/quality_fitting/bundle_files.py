"""The quality head as a file of its bundle."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xuanzang.server.bundles.manifest import MANIFEST
from xuanzang.server.bundles.quality_head import FORMAT, QUALITY, QualityHead
from xuanzang.server.quality_fitting.calibration import Agreement
from xuanzang.server.quality_fitting.tables import report_table

CARD = "MODEL_CARD.md"
_HEADING = "## How far to trust a translation"
_SECTION = re.compile(rf"^{_HEADING}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def add_head(
    bundle: Path, head: QualityHead, reports: Mapping[str, Agreement], *, min_chrf: float, fitted: int
) -> None:
    """Write a head into a bundle, with how well it does, and list it in the manifest; graphs and weights stay.

    A server that follows the folder may look between two writes; it refuses the bundle until its next look.

    Args:
        bundle: Folder of the bundle.
        head: Head.
        reports: How well it does, by name of the pairs.
        min_chrf: Minimum chrF2 of the translations that were called acceptable.
        fitted: Number of pairs of the fit.

    Raises:
        OSError: The files cannot be read or written.
    """
    document = {
        "format": FORMAT,
        **dataclasses.asdict(head),
        "fit": {"label": f"sentence chrF2 of at least {min_chrf:g}", "pairs": fitted},
        "reports": {name: dataclasses.asdict(report) for name, report in reports.items()},
    }
    contents = {QUALITY: _json(document, indent=1)}
    card = bundle / CARD
    if card.is_file():
        contents[CARD] = _with_section(card.read_text(encoding="utf-8"), _section(reports, min_chrf, fitted))
    manifest = json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"] = _listed(manifest["files"], contents)
    contents[MANIFEST] = _json(manifest, indent=2)
    for name, content in contents.items():
        _replace(bundle / name, content)


def _json(document: Mapping[str, Any], *, indent: int) -> str:
    # The manifest keeps the form that the exporter gives it.
    return json.dumps(document, indent=indent, sort_keys=True, ensure_ascii=False) + "\n"


def _listed(files: list[dict[str, Any]], contents: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the manifest's list with new digests of some files, ordered by name."""
    rows = {row["name"]: row for row in files}
    for name, content in contents.items():
        data = content.encode()
        # Proto JSON writes 64-bit numbers as text.
        rows[name] = {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": str(len(data))}
    return [rows[name] for name in sorted(rows)]


def _replace(path: Path, content: str) -> None:
    scratch = path.with_name(f"..{path.name}.new")
    scratch.write_text(content, encoding="utf-8")
    scratch.replace(path)


def _with_section(card: str, lines: list[str]) -> str:
    section = "\n".join([_HEADING, "", *lines, ""])
    rest = _SECTION.sub("", card).rstrip("\n")
    return f"{rest}\n\n{section}"


def _section(reports: Mapping[str, Agreement], min_chrf: float, fitted: int) -> list[str]:
    return [
        "`return_quality` estimates the probability that the translation of a sentence is acceptable, which here means",
        f"a chrF2 of at least {min_chrf:g} with the reference. Fitted on {fitted:,} held-out pairs, and measured on",
        "others: expected calibration error over 10 bins, AUROC, and the AUROC of the mean log-probability alone:",
        "",
        *report_table(reports),
    ]
