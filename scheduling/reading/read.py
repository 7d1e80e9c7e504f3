"""Reading what one cycle looks at; what has not changed since this process read last is not made anew.

A reading that remembers nothing gives the same picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling import engine
from scheduling.cycle.usage import decayed_usage
from scheduling.models import Clock
from scheduling.reading import cluster_nodes, device_sharing, open_workloads, translate, typical_requests
from scheduling.reading.cluster_nodes import Fleet
from scheduling.reading.open_workloads import OpenWorkloads
from scheduling.reading.picture import UNREADABLE, LeftAside, SnapshotPicture, unread
from scheduling.reading.rows import lines_of
from scheduling.reading.typical_requests import TypicalRequests
from teams.models import FairnessPolicy, Pool, PoolPolicy, Share, Team

TREE = ("id", "name", "parent_id", "bursting_priority", "burst_limit_percent", "maximum_milli")
SHARES = ("team_id", "pool_id", "reservation_milli", "maximum_milli")

Tree = tuple[Sequence[Any], Sequence[Any]]
"""The rows of teams, and of their shares."""


@dataclass(frozen=True, slots=True)
class ReadingCache:
    """What a reading leaves to the next one."""

    work: OpenWorkloads = field(default_factory=OpenWorkloads)
    fleet: Fleet = field(default_factory=Fleet)
    tree: Tree = ((), ())
    teams: tuple[engine.TeamInfo, ...] = ()
    typical: TypicalRequests = field(default_factory=TypicalRequests)


class Reading:
    """One reading of the tables, step by step; `left` is what it leaves to the next."""

    def __init__(self, now: datetime, before: ReadingCache) -> None:
        self.now, self.before, self.left = now, before, before
        self.left_aside: list[LeftAside] = []

    def picture(self) -> SnapshotPicture:
        """Read everything."""
        cycle = Clock.objects.values_list("cycle", flat=True).get(pk=1)
        pools = list(Pool.objects.all())
        rules = {pool.pk: self._rules(pool) for pool in pools}
        by_usage = {
            key: read for key, read in rules.items() if read and read.fairness is FairnessPolicy.USAGE
        }
        usage = decayed_usage(by_usage, self.now) if by_usage else {}
        tree, teams = self._teams(usage)
        nodes, open_now = self._nodes_and_work()
        often = typical_requests.read(self.before.typical, self.now)
        self.left = ReadingCache(open_now, nodes, tree, teams, often)
        self.left_aside += [*nodes.problems, *open_now.problems]
        workloads = (*open_now.workloads.values(), *open_now.stopping)
        there, workloads = device_sharing.marked(nodes.nodes, workloads, *device_sharing.read())
        snapshot = engine.Snapshot(translate.pools(pools, rules, often), teams, there, workloads)
        return SnapshotPicture(
            cycle, self.now, snapshot, open_now.known, nodes.devices, tuple(self.left_aside)
        )

    def _nodes_and_work(self) -> tuple[Fleet, OpenWorkloads]:
        """Read what is large (at most 8 queries)."""
        before = self.before
        (open_ones,) = lines_of(open_workloads.open_lines())
        devices, attempts, lying = lines_of(
            cluster_nodes.device_lines(), open_workloads.attempt_lines(), open_workloads.lying_lines()
        )
        opened = open_workloads.opened(before.work, open_ones)
        nodes = cluster_nodes.read(before.fleet, devices)
        return nodes, open_workloads.read(before.work, opened, attempts, lying, nodes=nodes, now=self.now)

    def _rules(self, pool: Pool) -> PoolPolicy | None:
        try:
            return pool.rules
        except UNREADABLE as error:
            self.left_aside.append(unread("pool", str(pool.pk), error))
            return None

    def _teams(self, usage: Mapping[tuple[str, str], int]) -> tuple[Tree, tuple[engine.TeamInfo, ...]]:
        """Return the tree's rows and what they mean; what they meant before where nothing changed and usage plays no
        part.
        """
        shares = Share.objects.filter(team__archived_at__isnull=True).order_by("pk")
        tree = (
            list(Team.objects.values_list(*TREE, named=True)),
            list(shares.values_list(*SHARES, named=True)),
        )
        if not usage and tree == self.before.tree:
            return self.before.tree, self.before.teams
        teams = translate.teams(*tree, usage)
        return ((), ()) if usage else tree, teams
