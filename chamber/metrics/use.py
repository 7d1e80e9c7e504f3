"""The metrics of what is made of GPUs that were given: how many are held and stand idle."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Sum
from prometheus_client.core import GaugeMetricFamily, Metric

from agentlink.models.node import WHOLE_DEVICE_MILLI
from chamber.metrics.tables import LabelNames
from workloads.models import Workload


def read(names: LabelNames, now: datetime) -> Iterator[Metric]:
    """Return the families of idle GPUs (1 query); teams and pools without any have no sample."""
    gpus = GaugeMetricFamily(
        "chamber_team_idle_gpus",
        "GPUs that the team's workloads hold and have hardly used for a while, where that is measured.",
        labels=("team", "pool"),
    )
    workloads = GaugeMetricFamily(
        "chamber_pool_workloads_idle", "Workloads in the pool that hold idle GPUs.", labels=("pool",)
    )
    milli, counts = Counter[tuple[str, str]](), Counter[str]()
    holding = Workload.objects.with_idle_gpus(now).order_by().values_list("pool", "team")
    for pool, team, idle_milli, count in holding.annotate(
        milli=Sum("attempt__gpu_use__idle_milli"), count=Count("pk")
    ):
        counts[pool.hex] += count
        for ancestor in names.ways.get(team.hex, [team.hex]):
            milli[ancestor, pool.hex] += idle_milli
    for (key, pool_key), idle_milli in milli.items():
        label = names.team(key), names.pools.get(pool_key, pool_key)
        gpus.add_metric(label, idle_milli / WHOLE_DEVICE_MILLI)
    for pool_key, count in counts.items():
        workloads.add_metric((names.pools.get(pool_key, pool_key),), count)
    yield from (gpus, workloads)
