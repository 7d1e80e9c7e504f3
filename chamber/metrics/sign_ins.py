"""The metric of refused sign-ins: by what nobody was let in."""

from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, Metric

from chamber.metrics.counts import Counts


class RefusedBy(StrEnum):
    """What was not taken."""

    PASSWORD = "password"  # noqa: S105 - a word
    FACTOR = "factor"
    PROVIDER = "provider"
    TOO_MANY = "too-many"


counts = Counts("sign-ins")


def refused(by: RefusedBy) -> None:
    """Count a sign-in that came to nothing."""
    counts.grow({(by.value,): 1})


def read() -> Iterator[Metric]:
    """Return the family of refused sign-ins, with all that this process counted so far.

    What did not happen yet is told as 0, for Prometheus sees no increase in a number that was not there before.
    """
    family = CounterMetricFamily(
        "chamber_sign_ins_refused", "Sign-ins that came to nothing, by what was not taken.", labels=("by",)
    )
    found = counts.read()
    if found is not None:
        for each in RefusedBy:
            family.add_metric((each.value,), found.get((each.value,), 0))
    yield family
