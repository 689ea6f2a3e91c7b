"""How the requests of a model that name no version are shared among its versions. Values never change."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A version, and a share of the requests."""

    version: int
    share: float
    """Above 0 and at most 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Versions of one model that have a part in its requests."""

    live: int | None = None
    """Version that answers, unless another is pinned; None for the highest."""
    previous: int | None = None
    """Version that was live before, for a rollback."""
    canary: Share | None = None
    """Version that answers a share of the requests in the place of the live one."""
    shadow: Share | None = None
    """Version that translates a share of the requests beside the live one, for nobody but the metrics."""

    def without(self, version: int) -> Traffic:
        """Return the traffic when a version has no part in it any more.

        Args:
            version: Version that was unloaded, or whose bundle was replaced.
        """
        return Traffic(
            live=None if self.live == version else self.live,
            previous=None if self.previous == version else self.previous,
            canary=None if self.canary and self.canary.version == version else self.canary,
            shadow=None if self.shadow and self.shadow.version == version else self.shadow,
        )

    def shared(self, version: int, *, canary: float | None, shadow: float | None) -> Traffic:
        """Return the traffic with other shares of a version.

        Args:
            version: Version that is not live; it takes the place of any other canary or shadow.
            canary: Share of the requests that it answers; 0 for none, None to leave the canary as it is.
            shadow: Share of the requests that it translates unseen; 0 for none, None to leave the shadow as it is.
        """
        changed = self
        if canary is not None:
            changed = replace(changed, canary=_changed(changed.canary, version, canary))
        if shadow is not None:
            changed = replace(changed, shadow=_changed(changed.shadow, version, shadow))
        return changed

    def canary_weight(self, version: int) -> float:
        """Return the share of the requests that a version answers as the canary."""
        return self.canary.share if self.canary and self.canary.version == version else 0.0

    def shadow_share(self, version: int) -> float:
        """Return the share of the requests that a version translates as the shadow."""
        return self.shadow.share if self.shadow and self.shadow.version == version else 0.0


def _changed(before: Share | None, version: int, share: float) -> Share | None:
    if share:
        return Share(version=version, share=share)
    # To end the share of a version that has none ends no other's.
    return None if before and before.version == version else before
