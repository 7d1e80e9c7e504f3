"""Since when nothing is known: of the scheduler, where no cycle has ended, and of clusters, where no agent was heard.

Nothing may be claimed that is not known (`docs/look.md`): pages, API and command line say what this answers. Asked of
the tables at most once a second in each process.
"""

import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now
from django.utils import timezone

from agentlink.models import Assignment, Cluster
from chamber import marks
from chamber.words import clock_time
from scheduling.models import Turn
from teams.permissions import Permission, may_anywhere
from workloads.models import Status, Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from agentlink.querysets import ClusterQuerySet
    from chamber.models import User

UNDECIDED_AFTER = timedelta(seconds=10)
"""A cycle ends about every second, whether or not it decides anything, and is noted every 2.5 s."""
KEPT_SECONDS = 1.0

TOPIC = "silence"
"""What open pages watch to be told that a silence began or ended; `chamber.live.hub` announces it."""
CALL_AN_OPERATOR = "Ask an operator to look after it: `chamber doctor` says what is wrong."
DEAF = "No process of the part live runs, to which agents connect."
START_LIVE = "Ask an operator to start `chamber serve --part live`"


@dataclass(frozen=True, slots=True)
class SilentCluster:
    """A cluster with work on it whose agent was last heard then, 30 seconds ago or more."""

    name: str
    last_seen_at: datetime

    @property
    def sentence(self) -> str:
        """What is said where its work is shown."""
        seen = clock_time(self.last_seen_at)
        return f"The cluster {self.name} was last seen {seen}; what its workloads do since is not known."


@dataclass(frozen=True, slots=True)
class Silence:
    """What is not known now. `undecided`: no cycle has ended since `since`, or ever where that is None.

    `waiting` counts those that are pending and not on hold then. `clusters` are those with work on them, by name.
    `deaf`: a cluster is not heard, and no process runs to which agents connect.
    """

    undecided: bool = False
    since: datetime | None = None
    waiting: int = 0
    clusters: tuple[SilentCluster, ...] = ()
    deaf: bool = False

    def __bool__(self) -> bool:
        return self.undecided or self.deaf or bool(self.clusters)

    @property
    def scheduler(self) -> str:
        """What is said of the scheduler; "" while cycles end."""
        if not self.undecided:
            return ""
        if self.since is None:
            return "The scheduler has not decided anything yet: no cycle has ended."
        return f"The scheduler has decided nothing since {clock_time(self.since)}: no cycle has ended."


_lock = threading.Lock()
_kept: tuple[float, Silence] | None = None


def look() -> Silence:
    """Return what is not known now (one query, four where all is silent; none within a second of the last)."""
    global _kept  # noqa: PLW0603 - one per process
    kept = _kept
    if kept is not None and time.monotonic() < kept[0]:
        return kept[1]
    with _lock:
        found = _read()
        _kept = (time.monotonic() + KEPT_SECONDS, found)
    return found


def told_to(user: "User | AnonymousUser") -> Silence:
    """Return what is not known now, as somebody may read it: of clusters, members of the organisation only."""
    found = look()
    if (found.clusters or found.waiting or found.deaf) and not may_anywhere(user, Permission.VIEW_TEAM):
        return replace(found, clusters=(), waiting=0, deaf=False)
    return found


def forget() -> None:
    """Have the next look ask the tables."""
    global _kept  # noqa: PLW0603 - one per process
    _kept = None


def mark() -> str:
    """Return what is not known as one text: it differs where pages are to say something else."""
    return repr(look())


def _read() -> Silence:
    away = Cluster.objects.silent(timezone.now()).filter(released_at__isnull=True)
    rows = Turn.objects.filter(pk=1).annotate(read_at=Now(), silent=Exists(_silent()), away=Exists(away))
    row = rows.values_list("looked_at", "read_at", "silent", "away").first()
    if row is None:  # nobody has ever decided, so no cluster has anything to run
        return Silence(undecided=True, waiting=_waiting())
    looked_at, read_at, silent, away_now = row
    undecided = looked_at is None or read_at - looked_at >= UNDECIDED_AFTER
    clusters = _clusters() if silent else ()
    deaf = away_now and not marks.is_reachable()
    if undecided:
        return Silence(True, looked_at, _waiting(), clusters, deaf)
    return Silence(clusters=clusters, deaf=deaf)


def _waiting() -> int:
    """Return how many wait: open pages are told when it changes, which else the next cycle would do (1 query)."""
    return Workload.objects.filter(status=Status.PENDING, held=False).count()


def _silent() -> "ClusterQuerySet":
    """Return the clusters that are to run something, and were not heard for 30 seconds."""
    holds = Assignment.objects.filter(cluster=OuterRef("pk"), wanted=True)
    return Cluster.objects.silent(timezone.now()).filter(Exists(holds)).order_by("name")


def _clusters() -> tuple[SilentCluster, ...]:
    rows = _silent().values_list("name", "last_seen_at")
    return tuple(SilentCluster(name, seen) for name, seen in rows if seen is not None)
