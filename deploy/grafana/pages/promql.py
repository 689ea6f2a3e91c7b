"""Expressions and matchers that several dashboards use."""

from __future__ import annotations

from panels import Query

SERVICE = 'grpc_service!~"grpc[.].*"'
"""Matcher of the RPCs of our own services, without health and reflection."""
QUANTILES = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))


def rate(metric: str, matchers: str = "", by: str = "") -> str:
    """Rate of a counter, summed by labels."""
    series = f"{metric}{{{matchers}}}" if matchers else metric
    return f"sum{f' by ({by}) ' if by else ''}(rate({series}[$__rate_interval]))"


def mean(histogram: str, matchers: str = "", by: str = "") -> str:
    """Mean of what a histogram observed."""
    return " / ".join(rate(f"{histogram}_{part}", matchers, by) for part in ("sum", "count"))


def quantile(share: float, histogram: str, matchers: str = "", by: str = "") -> str:
    """Quantile of what a histogram observed."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', matchers, labels)})"


def quantiles(histogram: str, matchers: str = "") -> tuple[Query, ...]:
    """Median, p95 and p99 of what a histogram observed."""
    return tuple(Query(quantile(share, histogram, matchers), name) for share, name in QUANTILES)
