"""The metric of mails: how many the mail server took, and how many it did not."""

from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, Metric

from chamber.metrics.counts import Counts


class MailResult(StrEnum):
    """What became of a mail."""

    SENT = "sent"
    REFUSED = "refused"
    GIVEN_UP = "given-up"


counts = Counts("mails")


def count(result: MailResult) -> None:
    """Count a mail."""
    counts.grow({(result.value,): 1})


def read() -> Iterator[Metric]:
    """Return the family of mails, with all that this process counted so far.

    What did not happen yet is told as 0, for Prometheus sees no increase in a number that was not there before.
    """
    mails = CounterMetricFamily(
        "chamber_mails", "Mails that the mail server took, or did not.", labels=("result",)
    )
    found = counts.read()
    if found is not None:
        for result in MailResult:
            mails.add_metric((result.value,), found.get((result.value,), 0))
    yield mails
