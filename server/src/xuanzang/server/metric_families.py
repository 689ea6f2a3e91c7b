"""How metrics are declared: in the annotations of the attributes that hold their series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from prometheus_client import CollectorRegistry

Series = TypeVar("Series")


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric, in the annotation of an attribute that holds its series."""

    documentation: str
    buckets: Sequence[float] = ()
    """Upper bounds of a histogram's buckets."""
    label: str = ""
    """Label of a mapping with one series per value, in addition to the labels of all series."""
    values: Sequence[str] = ()

    def declare(self, kind: Any, name: str, labels: tuple[str, ...], registry: CollectorRegistry) -> Any:
        """Make the metric.

        Args:
            kind: Class of the metric, or of a mapping to it.
            name: Name without the endings that the class adds.
            labels: Labels of all series.
            registry: Registry that collects it.
        """
        if self.label:
            kind, labels = get_args(kind)[-1], (*labels, self.label)
        options = {"buckets": self.buckets} if self.buckets else {}
        return kind(name, self.documentation, labels, registry=registry, **options)

    def series(self, family: Any, labels: tuple[str, ...]) -> object:
        """Return the series of a metric with some labels, or a mapping to them; the first call makes them at 0."""
        if self.label:
            return {value: family.labels(*labels, value) for value in self.values}
        return family.labels(*labels) if labels else family


class Families(Generic[Series]):
    """The metrics that the annotations of a class declare, and instances of the class by labels."""

    def __init__(
        self, series: type[Series], *, prefix: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        """Declare the metrics.

        Args:
            series: Class whose annotations hold a `Metric` each.
            prefix: Beginning of the metrics' names, which the names of the attributes follow.
            labels: Labels of all series.
            registry: Registry that collects the metrics.
        """
        self._series = series
        self._families: dict[str, tuple[Metric, Any]] = {}
        for name, annotation in get_type_hints(series, include_extras=True).items():
            kind, metric = get_args(annotation)
            self._families[name] = metric, metric.declare(kind, f"{prefix}_{name}", labels, registry)
        self._of: dict[tuple[str, ...], Series] = {}

    def of(self, labels: tuple[str, ...]) -> Series:
        """Return the series with these labels; the first call creates them at 0."""
        # Finding a series by its labels takes as long as counting, so it is done once.
        if labels not in self._of:
            series = {name: metric.series(family, labels) for name, (metric, family) in self._families.items()}
            self._of[labels] = self._series(**series)
        return self._of[labels]

    def forget(self, labels: tuple[str, ...]) -> None:
        """Remove the series with these labels, if there are any."""
        if self._of.pop(labels, None) is not None:
            for metric, family in self._families.values():
                for value in metric.values or ("",):
                    family.remove(*labels, *([value] if value else []))
