"""The gate: whether a version is good enough to go live in the place of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.quality import certified_loss
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion.chrf import chrf
from xuanzang.server.engine.promotion.comparison import compare
from xuanzang.server.engine.promotion.golden_set import GoldenSet
from xuanzang.server.engine.promotion.settings import PromotionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was measured, and its bound."""

    name: str
    """Name of the check, such as "golden_set_chrf"."""
    measured: float
    bound: float
    is_minimum: bool
    """Whether the bound is a minimum; else it is a maximum."""

    @property
    def passed(self) -> bool:
        """Whether the measured value is within the bound."""
        return self.measured >= self.bound if self.is_minimum else self.measured <= self.bound

    def __str__(self) -> str:
        kind = "minimum" if self.is_minimum else "maximum"
        return f"{self.name} is {self.measured:.4g}, the {kind} is {self.bound:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the gate found of a version."""

    checks: tuple[Check, ...]
    sentences: int
    """Lines of the golden set."""
    faults: tuple[str, ...] = ()
    """What no number says, such as a certificate that states no quality."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for which the version may not go live; none if it may."""
        return (*self.faults, *(str(check) for check in self.checks if not check.passed))


def judge(
    candidate: LoadedModel,
    live: LoadedModel,
    *,
    golden: GoldenSet,
    translations: tuple[Sequence[str], Sequence[str]],
    settings: PromotionSettings,
) -> Evaluation:
    """Judge a version by its certificate, the golden set and the translations of the live version; reads a file.

    Args:
        candidate: Version that would go live.
        live: Version that is live.
        golden: Golden set.
        translations: Translations of the golden set, of the candidate and of the live version.
        settings: Bounds.

    Returns:
        What was measured, and the bounds.
    """
    checks = list(_compared(*translations, golden=golden, settings=settings))
    faults = list(_narrower(candidate, live))
    try:
        loss = certified_loss(candidate.bundle)
    except BundleError as error:
        faults += error.reasons
    else:
        checks.insert(0, _at_most("certified_chrf_loss", loss, settings.gate_max_certified_loss))
    return Evaluation(checks=tuple(checks), sentences=len(golden.sources), faults=tuple(faults))


def _compared(
    candidate: Sequence[str], live: Sequence[str], *, golden: GoldenSet, settings: PromotionSettings
) -> Iterator[Check]:
    lowest = chrf(live, golden.references) - settings.gate_max_chrf_loss
    yield _at_least("golden_set_chrf", chrf(candidate, golden.references), lowest)
    agreement = compare(candidate, live)
    yield _at_least("agreement_chrf", agreement.chrf, settings.gate_min_agreement)
    yield _at_least("agreement_exact_match", agreement.exact_match, settings.gate_min_exact_match)
    change = abs(agreement.length_ratio - 1)
    yield _at_most("agreement_length_change", change, settings.gate_max_length_change)


def _narrower(candidate: LoadedModel, live: LoadedModel) -> Iterator[str]:
    """Yield what callers of the live version may ask for, and the candidate cannot do."""
    ours, theirs = candidate.served(is_default=False), live.served(is_default=True)
    for kind in ("source_languages", "target_languages"):
        if missing := set(getattr(theirs, kind)) - set(getattr(ours, kind)):
            yield f"{kind} lack {', '.join(sorted(missing))}, which the live version has"
    for kind in ("max_source_length", "max_target_length"):
        if getattr(ours, kind) < getattr(theirs, kind):
            yield f"{kind} is {getattr(ours, kind)}, the live version's is {getattr(theirs, kind)}"


def _at_least(name: str, measured: float, bound: float) -> Check:
    return Check(name=name, measured=measured, bound=bound, is_minimum=True)


def _at_most(name: str, measured: float, bound: float) -> Check:
    return Check(name=name, measured=measured, bound=bound, is_minimum=False)
