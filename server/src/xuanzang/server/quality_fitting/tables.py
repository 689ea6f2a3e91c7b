"""Tables in Markdown of how well a quality head does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from xuanzang.server.bundles.quality_head import QualityHead
from xuanzang.server.engine.quality.flags import sentence_flags
from xuanzang.server.engine.types import QualityFlag
from xuanzang.server.quality_fitting.calibration import Agreement
from xuanzang.server.quality_fitting.fitting import LabelledPair


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
        head: Head with the limits of the flags.
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
