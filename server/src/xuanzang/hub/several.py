"""The bundles that one name stands for: of one model, or of every pair of Firefox Translations."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from xuanzang.hub.packages import require_student_import
from xuanzang.hub.pulling import STUDENT_DISK, PullRequest, bundle_name, pull, require_room
from xuanzang.hub.registry import Addresses, Registry, RegistryModel
from xuanzang.server.published import EVERY_PAIR, HubError, is_student_name, pulled_bundles

Report = Callable[[str], None]
_REGISTRY_SECONDS = 5.0
"""Limit for the answer of the registry where pairs can be served without it."""


class EveryPair(NamedTuple):
    """Bundles of all pairs, as far as they can be had."""

    bundles: Sequence[Path]
    failures: Mapping[str, str]
    """By name, why a pair has no bundle of its newest release."""


def published_bundles(name: str, repository: Path, report: Report, before_pull: Callable[[], None]) -> Sequence[Path]:
    """Pull a model, or every pair, for `xuanzang.server.published`, and return the bundles.

    Of every pair only those are pulled that have no bundle of any release. The others are returned even if
    `before_pull` raises HubError, or the registry, which is then asked once, does not answer.
    """
    repository = repository.absolute()
    request = PullRequest(
        model=name, name=bundle_name(name), repository=repository, addresses=Addresses.of_environment(os.environ)
    )
    if name != EVERY_PAIR:
        before_pull()
        return [pull(request, report)]
    there = list(_newest_bundles(repository).values())
    try:
        seconds = _REGISTRY_SECONDS if there else None
        found = pull_every_pair(request, report, before_pull=before_pull, updates=False, registry_seconds=seconds)
    except HubError as error:
        if not there:
            raise
        report(f"{error}; serving {len(there)} of earlier pulls")
        return there
    return found.bundles


def pull_every_pair(
    request: PullRequest,
    report: Report,
    *,
    before_pull: Callable[[], None] = lambda: None,
    updates: bool = True,
    registry_seconds: float | None = None,
) -> EveryPair:
    """Pull the newest release of every pair, one after the other; a pair that fails is reported and left out.

    Args:
        request: Folder, addresses and flags of each pull.
        report: Called with lines for the user.
        before_pull: Called after the sizes were reported, before the first pull; its exception ends the call.
        updates: True to pull also the pairs with a bundle of an earlier release.
        registry_seconds: Limit of a single attempt to fetch the registry; None for several attempts.

    Raises:
        HubError: The registry does not answer, the disk is too small, or no pair can be had.
        OSError: A folder cannot be written.
    """
    require_student_import()
    from xuanzang.hub.transfer import fetch_registry  # noqa: PLC0415 - a server has not its libraries

    registry = fetch_registry(request.addresses, report, seconds=registry_seconds)
    request.repository.mkdir(parents=True, exist_ok=True)
    releases = _Releases.of(registry)
    missing = _missing(releases.newest, request.repository, updates=updates)
    if missing:
        _report_sizes(missing, len(releases.newest), request.repository, report)
        before_pull()
    failures = {**releases.refused, **_pull_each(missing, request, registry, report)}
    bundles = list(_newest_bundles(request.repository).values())
    if not bundles:
        raise HubError(f"none of the {releases.pairs} pairs of {EVERY_PAIR} can be had; the lines above say why")
    if failures:
        report(f"{len(failures)} pairs failed: {', '.join(sorted(failures))}; the same command tries them again")
    return EveryPair(bundles, failures)


class _Releases(NamedTuple):
    """The pairs of a registry."""

    newest: Mapping[str, RegistryModel]
    """Newest model of each pair by name."""
    refused: Mapping[str, str]
    """By name, why the other pairs cannot be imported."""

    @classmethod
    def of(cls, registry: Registry) -> _Releases:
        newest: dict[str, RegistryModel] = {}
        refused: dict[str, str] = {}
        for name in registry.names():
            try:
                newest[name] = registry.newest(name)
            except HubError as error:
                refused[name] = str(error)
        return cls(newest, refused)

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.newest) + len(self.refused)


def _pull_each(names: Collection[str], request: PullRequest, registry: Registry, report: Report) -> dict[str, str]:
    """Pull models one after the other; return by name why some failed."""
    failures: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        report(f"{number} of {len(names)}: {name}")
        try:
            pull(replace(request, model=name, name=bundle_name(name)), report, registry)
        except (HubError, OSError) as error:
            failures[name] = str(error)
            report(f"{name} failed: {error}")
    return failures


def _missing(newest: Mapping[str, RegistryModel], repository: Path, *, updates: bool) -> dict[str, RegistryModel]:
    there = {(name, revision if updates else "") for (name, revision), _ in pulled_bundles(repository)}
    return {name: model for name, model in newest.items() if (name, model.revision if updates else "") not in there}


def _report_sizes(missing: Mapping[str, RegistryModel], count: int, repository: Path, report: Report) -> None:
    """Say what the pulls take; raise HubError if the disk has not that."""
    sent = sum(model.sent_size for model in missing.values())
    sizes = [model.content_size for model in missing.values()]
    report(
        f"{EVERY_PAIR}: {len(missing)} of {count} pairs to pull; {sent / 1e6:.0f} MB to download, "
        f"{sum(sizes) / 1e6:.0f} MB on disk in {repository}"
    )
    # Each is made where its own files lie, and these go before the next.
    require_room(repository, sum(sizes) + (STUDENT_DISK - 1) * max(sizes), 0)


def _newest_bundles(repository: Path) -> dict[str, Path]:
    """Return the newest bundle of each pair by name."""
    newest: dict[str, Path] = {}
    for origin, folder in pulled_bundles(repository):
        if is_student_name(origin.name):
            newest.setdefault(origin.name, folder)
    return newest
