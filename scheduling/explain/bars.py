"""Who holds how much, and what it is charged to: for all teams at once, so in few rows and without objects."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from django.db.models import Count, TextField
from django.db.models.functions import Cast

from workloads.models import Attempt


class Holding(NamedTuple):
    """What a team's own workloads hold of a pool, charged to one guarantee (of a team) or to none (burst).

    Ids are 32 hexadecimal digits, as in the paths of teams.
    """

    pool: str
    team: str
    charged: str
    milli: int


def holdings() -> list[Holding]:
    """Return what is allocated now (1 query, over the open attempts; a row for each different allocation)."""
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    read: dict[str, list[tuple[str, int]]] = {}
    for pool, team, allocation, attempts in _rows():
        parts = read.get(allocation)
        if parts is None:
            parts = read[allocation] = [
                ((part["team"] or "").replace("-", ""), part["milli"]) for part in json.loads(allocation)
            ]
        for charged, milli in parts:
            sums[pool, team, charged] += milli * attempts
    return [
        Holding(pool.replace("-", ""), team.replace("-", ""), charged, milli)
        for (pool, team, charged), milli in sums.items()
    ]


def _rows() -> Iterator[tuple[str, str, str, int]]:
    """Return pool, team and allocation as texts, with the number of open attempts of each."""
    texts = [Cast(name, TextField()) for name in ("pool_id", "workload__team_id", "allocation")]
    rows = Attempt.objects.filter(ended_at__isnull=True).order_by()
    yield from rows.values_list(*texts).annotate(attempts=Count("id"))
