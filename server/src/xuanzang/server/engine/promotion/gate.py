"""The gate: whether a version may go live, by its certificate and a golden set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xuanzang.server.bundles.bundle import certified_loss
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.engine.calls.call import RunningCall, SharedResources
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.errors import (
    DrainingError,
    InvalidInputError,
    ModelStateError,
    NotJudgedError,
    OverloadedError,
)
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import CallContext
from xuanzang.server.engine.settings import PromotionSettings
from xuanzang.server.engine.types import CallerId
from xuanzang.text.comparison import chrf, compare

MAX_BYTES = 1 << 20
MAX_PAIRS = 1000
MAX_CHARACTERS = 2000
"""Maximum characters of a source or a reference."""
_CALLER = CallerId("gate")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSet:
    """Sources and their references, at least one of each."""

    sources: tuple[str, ...]
    references: tuple[str, ...]


def read_golden_set(folder: Path | None, name: str) -> GoldenSet:
    """Read the current golden set of a model, or raise ModelStateError with the fault and its line."""
    if folder is None:
        raise ModelStateError("there are no golden sets to judge by: the server was started without --golden-sets")
    try:
        content = read_limited(folder, f"{name}.tsv", MAX_BYTES).decode()
    except BundleError as error:
        raise ModelStateError(f"the golden set cannot be used: {error.reasons[0]}") from error
    except UnicodeDecodeError as error:
        raise ModelStateError(f"the golden set {name}.tsv is not UTF-8") from error
    lines = enumerate(content.split("\n"), 1)
    pairs = [(number, line.removesuffix("\r").split("\t")) for number, line in lines if line.strip()]
    if not 1 <= len(pairs) <= MAX_PAIRS:
        raise ModelStateError(f"the golden set {name}.tsv must have 1 to {MAX_PAIRS} lines, has {len(pairs)}")
    for number, columns in pairs:
        if len(columns) != 2 or not all(1 <= len(column.strip()) <= MAX_CHARACTERS for column in columns):
            what = f"must be SOURCE<tab>REFERENCE, each of 1 to {MAX_CHARACTERS} characters"
            raise ModelStateError(f"line {number} of the golden set {name}.tsv {what}")
    sources, references = zip(*(columns for _, columns in pairs), strict=True)
    return GoldenSet(sources=sources, references=references)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was measured, and its bound."""

    name: str
    """Name of the check, such as "golden_set_chrf"."""
    measured: float
    bound: float
    is_minimum: bool
    """True if the bound is a minimum; else it is a maximum."""

    @property
    def passed(self) -> bool:
        """True if the measured value is within the bound."""
        return self.measured >= self.bound if self.is_minimum else self.measured <= self.bound

    def __str__(self) -> str:
        kind = "minimum" if self.is_minimum else "maximum"
        return f"{self.name} is {self.measured:.4g}, the {kind} is {self.bound:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Verdict of the gate on a version."""

    checks: tuple[Check, ...]
    sentences: int
    """Lines of the golden set."""
    faults: tuple[str, ...] = ()
    """Reasons that no number gives, such as a certificate that states no quality."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for refusing the version; none if it may go live."""
        return (*self.faults, *(str(check) for check in self.checks if not check.passed))


def judge(
    candidate: LoadedModel,
    live: LoadedModel,
    *,
    golden: GoldenSet,
    translations: tuple[Sequence[str], Sequence[str]],
    settings: PromotionSettings,
) -> Evaluation:
    """Judge a version by its certificate, the golden set and the translations of the live version; reads a file."""
    ours, theirs = translations
    checks, faults = [], list(_narrower(candidate, live))
    try:
        loss = certified_loss(candidate.bundle)
    except BundleError as error:
        faults += error.reasons
    else:
        checks.append(_at_most("certified_chrf_loss", loss, settings.gate_max_certified_loss))
    agreement = compare(ours, theirs)
    lowest = chrf(theirs, golden.references) - settings.gate_max_chrf_loss
    checks += (
        _at_least("golden_set_chrf", chrf(ours, golden.references), lowest),
        _at_least("agreement_chrf", agreement.chrf, settings.gate_min_agreement),
        _at_least("agreement_exact_match", agreement.exact_match, settings.gate_min_exact_match),
        _at_most("agreement_length_change", abs(agreement.length_ratio - 1), settings.gate_max_length_change),
    )
    return Evaluation(checks=tuple(checks), sentences=len(golden.sources), faults=tuple(faults))


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


class Judge:
    """Measures versions, one after another."""

    def __init__(self, shared: SharedResources, live: LiveModels, settings: PromotionSettings) -> None:
        self._shared = shared
        self._live = live
        self._settings = settings
        self._judging = asyncio.Lock()

    async def evaluate(self, candidate: LoadedModel, live: LoadedModel) -> Evaluation:
        """Judge a version, or raise ModelStateError if it cannot be judged."""
        settings = self._settings
        try:
            async with self._judging:
                golden = await asyncio.to_thread(read_golden_set, settings.golden_sets, candidate.name)
                async with asyncio.timeout(settings.gate_timeout_seconds):
                    ours, theirs = [await self._translated(golden.sources, model) for model in (candidate, live)]
        except TimeoutError:
            limit = f"--gate-timeout-seconds, {settings.gate_timeout_seconds:g}"
            raise NotJudgedError(f"callers left no time to translate the golden set within {limit}") from None
        except InvalidInputError as error:
            raise ModelStateError(f"the golden set cannot be translated: {error}") from error
        return await asyncio.to_thread(
            judge, candidate, live, golden=golden, translations=(ours, theirs), settings=settings
        )

    async def _translated(self, sources: Sequence[str], model: LoadedModel) -> list[str]:
        """Translate one text after another, as a caller who takes turns with the others."""
        context, served = CallContext(model=model, caller=_CALLER), model.served(is_default=False)
        translations: list[str] = []
        while len(translations) < len(sources):
            if self._live.catalog.find(model.name, model.version) is not model:
                raise DrainingError(f"{model.name}/{model.version} is no longer served")
            try:
                async with self._live.usage.of(model):
                    texts = (sources[len(translations)],)
                    call = Call(texts=texts, model=served, options=served.default_options)
                    running = RunningCall(self._shared, call, context, CallRecord(), keeps_answers=False)
                    [[best, *_]] = await running.run()
            except OverloadedError as error:
                await asyncio.sleep(error.retry_after_seconds)
            else:
                translations.append(best.text)
        return translations
