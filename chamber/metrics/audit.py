"""The metrics of the audit trail's chain."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from teams.chain.duty import standing


def read() -> Iterator[Metric]:
    """Return how long the chain is, what waits, and what the last check found (4 queries)."""
    found = standing()
    sealed = GaugeMetricFamily(
        "chamber_audit_sealed_rows", "Number of the last row in the audit trail's chain; it never falls."
    )
    sealed.add_metric((), found.chain.number)
    waiting = GaugeMetricFamily(
        "chamber_audit_unsealed_rows", "Rows of the audit trail that are in its chain not yet."
    )
    waiting.add_metric((), found.waiting)
    holds = GaugeMetricFamily(
        "chamber_audit_chain_holds",
        "1 while every row that was checked fits the chain or is a known break, else 0; missing before a check.",
    )
    known = GaugeMetricFamily(
        "chamber_audit_known_breaks", "Breaks of the audit trail's chain that an operator has accepted."
    )
    known.add_metric((), len(found.known))
    checked = GaugeMetricFamily(
        "chamber_audit_chain_checked_timestamp_seconds",
        "When the chain was last checked: whole is of every row, new of what was added since.",
        labels=("rows",),
    )
    if found.check is not None:
        holds.add_metric((), int(found.holds))
        checked.add_metric(("new",), found.check.at.timestamp())
        if found.check.whole_at is not None:
            checked.add_metric(("whole",), found.check.whole_at.timestamp())
    yield from (sealed, waiting, holds, known, checked)
