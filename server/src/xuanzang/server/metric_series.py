"""Series that cost little to count, and their declaration: as attributes of the classes that hold them."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar, cast

from prometheus_client import CollectorRegistry
from prometheus_client import Metric as PrometheusMetric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample
from typing_extensions import override

Series = TypeVar("Series")


class _Number:
    kind = ""
    ending = ""

    def __init__(self, _bounds: Sequence[float] = ()) -> None:
        self.value = 0.0
        """The number, for writers who do not write at the same time; others use `inc`."""
        self._lock = threading.Lock()

    def inc(self, amount: float = 1.0) -> None:
        """Add an amount, of at least 0 to a counter."""
        with self._lock:
            self.value += amount

    def samples(self, name: str, labels: dict[str, str]) -> Iterator[Sample]:
        """Return its sample under the name of its metric."""
        yield Sample(name + self.ending, labels, self.value)


class Counter(_Number):
    """A number that grows. One call of a function counts, four with the class of prometheus_client."""

    kind, ending = "counter", "_total"


class Gauge(_Number):
    """A number that rises and falls."""

    kind = "gauge"

    def __init__(self, _bounds: Sequence[float] = ()) -> None:
        super().__init__()
        self._read: Callable[[], float] | None = None

    def dec(self, amount: float = 1.0) -> None:
        """Take from it."""
        with self._lock:
            self.value -= amount

    def set_function(self, read: Callable[[], float]) -> None:
        """Show what a function returns, which is called whenever the metrics are read."""
        self._read = read

    @override
    def samples(self, name: str, labels: dict[str, str]) -> Iterator[Sample]:
        yield Sample(name, labels, float(self._read() if self._read else self.value))


class Histogram:
    """Numbers of values by buckets."""

    kind = "histogram"

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin without values; of the buckets' upper bounds the last one is infinite."""
        self.bounds = bounds
        self.counts = [0] * len(bounds)
        """Values by bucket. It and `sum` are for writers who do not write at the same time; others use `observe`."""
        self.sum = 0.0
        self._exemplars: dict[int, Exemplar] = {}
        self._lock = threading.Lock()

    def observe(self, value: float, exemplar: dict[str, str] | None = None, *, times: int = 1) -> None:
        """Count a value `count` times, with labels of an exemplar, such as the id of a trace."""
        bucket = bisect_left(self.bounds, value)
        with self._lock:
            self.counts[bucket] += times
            self.sum += times * value
        if exemplar is not None:
            self._exemplars[bucket] = Exemplar(exemplar, value, time.time())

    @staticmethod
    def observe_each(values: Iterable[tuple[Histogram, float]]) -> None:
        """Count a value in each of some histograms, which this thread alone writes."""
        for histogram, value in values:
            histogram.counts[bisect_left(histogram.bounds, value)] += 1
            histogram.sum += value

    def samples(self, name: str, labels: dict[str, str]) -> Iterator[Sample]:
        """Return its samples under the name of its metric."""
        with self._lock:
            counts, total = list(accumulate(self.counts)), self.sum
        for bucket, (bound, count) in enumerate(zip(self.bounds, counts, strict=True)):
            of_bucket = {**labels, "le": _written(bound)}
            yield Sample(f"{name}_bucket", of_bucket, count, None, self._exemplars.get(bucket))
        yield Sample(f"{name}_count", labels, counts[-1])
        if self.bounds[0] >= 0:
            yield Sample(f"{name}_sum", labels, total)


def _written(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else str(float(bound))


Kind = TypeVar("Kind", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class Metric(Generic[Kind]):
    """Declaration of a metric: an attribute of a class whose instances have its series there."""

    kind: type[Kind]
    """Counter, Gauge or Histogram."""
    documentation: str
    buckets: Sequence[float] = ()
    label: str = ""
    """Label of a mapping with one series per value, in addition to the labels of all series."""
    values: Sequence[str] = ()


class Family(Collector, Generic[Kind]):
    """The series of one metric by their labels."""

    def __init__(
        self, metric: Metric[Kind], name: str, labels: tuple[str, ...], *, registry: CollectorRegistry
    ) -> None:
        """Show a metric, under its name without the ending of counters."""
        self._metric: Metric[Kind] = metric
        self._name, self._labels = name, labels
        self._bounds = (*metric.buckets, math.inf)
        self._of: dict[tuple[str, ...], Kind] = {}
        registry.register(self)

    def labels(self, *values: str) -> Kind:
        """Return the series with some labels; the first call makes it at 0."""
        if values not in self._of:
            self._of[values] = self._metric.kind(self._bounds)
        return self._of[values]

    def remove(self, *values: str) -> None:
        """Show the series with some labels no longer."""
        self._of.pop(values, None)

    @override
    def collect(self) -> Iterable[PrometheusMetric]:
        [family] = self.describe()
        for values, series in list(self._of.items()):
            family.samples += series.samples(self._name, dict(zip(self._labels, values, strict=True)))
        return [family]

    def describe(self) -> Iterable[PrometheusMetric]:
        """Return the metric without series, for the registry to know its names."""
        return [PrometheusMetric(self._name, self._metric.documentation, self._metric.kind.kind)]


def metric(kind: type[Kind], documentation: str, buckets: Sequence[float] = ()) -> Kind:
    """Declare a metric; `buckets`: upper bounds of a histogram's buckets."""
    declared: Any = Metric(kind, documentation, buckets)
    return cast(Kind, declared)


def metrics_by(
    kind: type[Kind], documentation: str, buckets: Sequence[float] = (), **values: Sequence[str]
) -> Mapping[str, Kind]:
    """Declare a metric with one label; each of `values` has a series."""
    [(label, each)] = values.items()
    declared: Any = Metric(kind, documentation, buckets, label, each)
    return cast(Mapping[str, Kind], declared)


class Families(Generic[Series]):
    """The metrics that a class declares, and instances of the class by labels."""

    def __init__(
        self, series: type[Series], *, prefix: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        """Declare the metrics `prefix_x` of a class whose attributes x are metrics."""
        self._series = series
        self._families: dict[str, tuple[Metric[Any], Family[Any]]] = {}
        for name, each in vars(series).items():
            if isinstance(each, Metric):
                all_labels = (*labels, each.label) if each.label else labels
                self._families[name] = each, Family(each, f"{prefix}_{name}", all_labels, registry=registry)
        self._of: dict[tuple[str, ...], Series] = {}

    def of(self, labels: tuple[str, ...]) -> Series:
        """Return the series with these labels; the first call creates them at 0."""
        # Finding a series by its labels takes as long as counting, so it is done once.
        if labels not in self._of:
            made = self._series()
            for name, (each, family) in self._families.items():
                by_value = {value: family.labels(*labels, value) for value in each.values}
                setattr(made, name, by_value if each.label else family.labels(*labels))
            self._of[labels] = made
        return self._of[labels]

    def forget(self, labels: tuple[str, ...]) -> None:
        """Remove the series with these labels, if there are any."""
        if self._of.pop(labels, None) is not None:
            for each, family in self._families.values():
                for value in each.values or ("",):
                    family.remove(*labels, *filter(None, [value]))
