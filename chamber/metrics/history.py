"""The metrics that only grow, from the running totals: waits, preemptions, lost work, cycles, promises."""

import json
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from chamber.metrics import totals
from chamber.metrics.tables import LabelNames
from chamber.models import Total
from scheduling.cycle import totals as cycle_totals


def read(names: LabelNames) -> Iterator[Metric]:
    """Return the families of the totals (1 query)."""
    rows: dict[str, list[tuple[dict[str, str], Total]]] = {}
    for row in Total.objects.order_by("name", "labels"):
        rows.setdefault(row.name, []).append((json.loads(row.labels), row))
    waits, cycles = rows.get(cycle_totals.WAIT, []), rows.get(totals.CYCLE, [])
    yield _histogram(
        "chamber_workload_wait_seconds",
        "Time that workloads were Pending before they were admitted, by what the start was charged to.",
        ("charge", "job_class"),
        cycle_totals.WAIT_BOUNDS,
        waits,
    )
    yield _histogram(
        "chamber_eta_error_seconds",
        "How far starts were from the first latest start that was told, after it (late) or not (early).",
        ("direction",),
        cycle_totals.ETA_BOUNDS,
        rows.get(cycle_totals.ETA, []),
    )
    yield _histogram(
        "chamber_cycle_duration_seconds",
        "Time of cycles that were stored, from reading the tables to writing the plan.",
        (),
        totals.CYCLE_BOUNDS,
        cycles or [({}, Total())],
    )
    yield from _preemptions(names, rows.get(cycle_totals.PREEMPTION, []))
    yield _displaced(rows.get(totals.DISPLACED, []))
    for key, name, text in (
        (
            totals.DECISION,
            "chamber_cycle_decisions",
            "Starts, preemptions, growths and shrinks that were applied.",
        ),
        (totals.LEFT_OUT, "chamber_cycle_left_out", "Decisions not applied because their rows had changed."),
        (
            totals.CYCLE_FAILURE,
            "chamber_cycle_failures",
            "Cycles that the engine failed in; stored once a minute.",
        ),
    ):
        yield CounterMetricFamily(name, text, value=sum(row.amount for _, row in rows.get(key, [])))


def _preemptions(names: LabelNames, rows: list[tuple[dict[str, str], Total]]) -> Iterator[Metric]:
    labels = ("rule", "level")
    count = CounterMetricFamily(
        "chamber_preemptions",
        "Workloads that were preempted, by the rule and by the team in which victim and newcomer part.",
        labels=labels,
    )
    lost = CounterMetricFamily(
        "chamber_preemption_lost_gpu_seconds",
        "GPU-seconds that preempted workloads had run since their last known checkpoint, else since their start.",
        labels=labels,
    )
    for found, row in rows:
        label = found["rule"], names.team(found["level"])
        count.add_metric(label, row.count)
        lost.add_metric(label, row.amount)
    yield from (count, lost)


def _displaced(rows: list[tuple[dict[str, str], Total]]) -> Metric:
    text = (
        "Attempts that ended through no doing of their workload, by cause; neither preemptions nor failures."
    )
    family = CounterMetricFamily("chamber_displaced", text, labels=("cause",))
    for found, row in rows:
        family.add_metric((found["cause"],), row.count)
    return family


def _histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    bounds: Sequence[float],
    rows: list[tuple[dict[str, str], Total]],
) -> HistogramMetricFamily:
    """Return a histogram; a bound that an older version counted by keeps its bucket."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for found, row in rows:
        counts = {float(bound): count for bound, count in row.buckets.items()}
        cumulated, buckets = 0, []
        for bound in sorted({*bounds, *counts, float("inf")}):
            cumulated += counts.get(bound, 0)
            buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), cumulated))
        family.add_metric([found[label] for label in labels], buckets=buckets, sum_value=row.amount)
    return family
