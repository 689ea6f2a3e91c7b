"""Output of a quality head: the files of its bundle, tables in Markdown, reliability curves."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from quality_head_fit import Agreement, LabelledPair

from xuanzang.server.bundles.manifest import MANIFEST
from xuanzang.server.bundles.quality_head import FORMAT, QUALITY, QualityHead
from xuanzang.server.engine.quality import sentence_flags
from xuanzang.server.engine.types import QualityFlag

CARD = "MODEL_CARD.md"
_HEADING = "## How far to trust a translation"
_SECTION = re.compile(rf"^{_HEADING}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def add_head(
    bundle: Path, head: QualityHead, reports: Mapping[str, Agreement], *, min_chrf: float, fitted: int
) -> None:
    """Write a head into a bundle, with how well it does, and list it in the manifest; graphs and weights stay.

    A server that follows the folder may look between two writes; it refuses the bundle until its next look.

    Args:
        reports: How well it does, by name of the pairs.
        min_chrf: Minimum chrF2 of the translations that were called acceptable.
        fitted: Number of pairs of the fit.

    Raises:
        OSError: The files cannot be read or written.
    """
    document = {
        "format": FORMAT,
        **head.model_dump(),
        "fit": {"label": f"sentence chrF2 of at least {min_chrf:g}", "pairs": fitted},
        "reports": {name: dataclasses.asdict(report) for name, report in reports.items()},
    }
    contents = {QUALITY: _json(document, indent=1)}
    card = bundle / CARD
    if card.is_file():
        contents[CARD] = _with_section(card.read_text(encoding="utf-8"), _section(reports, min_chrf, fitted))
    write_files(bundle, contents)


def write_files(bundle: Path, contents: Mapping[str, str]) -> None:
    """Write files into a bundle, by name, and list them in its manifest.

    Raises:
        OSError: A file cannot be read or written.
    """
    manifest = json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"] = _listed(manifest["files"], contents)
    for name, content in {**contents, MANIFEST: _json(manifest, indent=2)}.items():
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


def report_table(reports: Mapping[str, Agreement]) -> list[str]:
    """Return the lines of a table in Markdown.

    Args:
        reports: How well a head does, by name of the pairs.
    """
    return [
        "| pairs | sentences | acceptable | mean probability | calibration error | AUROC | of the score alone |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {report.pairs:,} | {report.acceptable_share:.1%} | {report.mean_probability:.1%} "
            f"| {report.calibration_error:.3f} | {report.auroc:.3f} | {report.auroc_of_score:.3f} |"
            for name, report in reports.items()
        ),
    ]


def flag_table(head: QualityHead, known: Mapping[str, Sequence[LabelledPair]]) -> Iterator[str]:
    """Yield the lines of a table of flags: how many translations have each, and which share of these is acceptable.

    Args:
        known: Labelled pairs by name.
    """
    yield f"| flag | {' | '.join(known)} |"
    yield "|---|" + "---|" * len(known)
    counted = {name: _counted(head, pairs) for name, pairs in known.items()}
    for flag in QualityFlag:
        cells = [_cell(counts[flag, True], counts[flag, False], len(known[name])) for name, counts in counted.items()]
        if any(cells):
            yield f"| {flag.value} | {' | '.join(cells)} |"


def _counted(head: QualityHead, pairs: Sequence[LabelledPair]) -> Counter[tuple[QualityFlag, bool]]:
    return Counter((flag, pair.is_acceptable) for pair in pairs for flag in sentence_flags(pair.searched, head.limits))


def _cell(acceptable: int, others: int, pairs: int) -> str:
    flagged = acceptable + others
    return f"{flagged / pairs:.1%}, {acceptable / flagged:.0%} acceptable" if flagged else ""


def draw_reliability(reports: Mapping[str, Agreement], path: Path) -> None:
    """Draw the share of acceptable translations over their probability, which is a diagonal if both agree.

    Args:
        reports: How well a head does, by name of the pairs.
        path: File to write; its ending says the format. The area of a point grows with its number of translations.
    """
    # Text stays text, so that it can be searched and the file stays small; the salt makes ids the same in each run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "quality", "font.size": 9}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="#999999", linestyle="--", linewidth=0.8)
        for name, report in reports.items():
            pairs, likely, true = zip(*report.curve, strict=True)
            [line] = axes.plot(likely, true, label=_legend(name, report))
            sizes = [600 * each / report.pairs for each in pairs]
            axes.scatter(likely, true, s=sizes, color=line.get_color(), alpha=0.35, linewidths=0, clip_on=False)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set(xlabel="estimated probability", ylabel="acceptable translations")
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})


def _legend(name: str, report: Agreement) -> str:
    # matplotlib leaves out labels that begin with an underscore.
    figures = f"error {report.calibration_error:.3f}, AUROC {report.auroc:.3f}"
    return f"{name.lstrip('_')}: {report.pairs:,} sentences,\n{figures}"
