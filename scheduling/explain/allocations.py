"""Who holds how much of which pool, for bars; a constant number of queries each.

What is held, and who waits, comes from the tables; guarantees, ceilings and entitlements are those of the last cycle's
plan, and so is in which pool's queue somebody waits of whom it tells.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Case, Count, F, IntegerField, Q, Sum, Value, When
from django.db.models.functions import Coalesce

from agentlink.models import Device, Placement
from agentlink.models.node import SLICES, UNAVAILABLE_MILLI, DeviceSlicing
from agentlink.models.placement import Hold
from scheduling import engine
from scheduling.explain import last_cycle, newcomers
from scheduling.explain.explanation import kind_of, label
from teams.models import Pool, Team
from teams.models.job_class import RESERVED_FROM
from teams.permissions import outermost
from teams.values import amount_text, devices_text
from workloads import known
from workloads.models import Attempt, Status, Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser
    from django.db.models import QuerySet

    from chamber.models import User


@dataclass(slots=True)
class AllocatedUse:
    """Allocated milli-GPUs in three parts; `elastic_milli` is the elastic use that a guarantee covers."""

    reserved_milli: int = 0
    elastic_milli: int = 0
    burst_milli: int = 0

    @property
    def in_use_milli(self) -> int:
        """All of it."""
        return self.reserved_milli + self.elastic_milli + self.burst_milli


@dataclass(frozen=True, slots=True)
class PoolBar:
    """A pool as one stacked bar: `capacity_milli` counts every device, `unavailable_milli` what nobody can get.

    `slices` of its devices are no GPUs and count `slices_milli` of the capacity in sum. `waiting` counts the workloads
    that are pending and not on hold; `not_queued` of them stand in no queue.
    """

    pool: Pool
    capacity_milli: int = 0
    unavailable_milli: int = 0
    reserved_milli: int = 0
    elastic_milli: int = 0
    burst_milli: int = 0
    waiting: int = 0
    slices: int = 0
    slices_milli: int = 0
    not_queued: int = 0

    @property
    def devices(self) -> str:
        """Its devices, whatever their state: "24 GPUs and 9 slices worth 1.859 GPUs"."""
        whole = (self.capacity_milli - self.slices_milli) // engine.GPU_MILLI
        return devices_text(whole, self.slices, self.slices_milli)

    @property
    def in_use_milli(self) -> int:
        """What is allocated."""
        return self.reserved_milli + self.elastic_milli + self.burst_milli

    @property
    def idle_milli(self) -> int:
        """What newcomers could take."""
        return max(0, self.capacity_milli - self.unavailable_milli - self.in_use_milli)


Group = tuple[str, list[str], int, int, int]
"""Workloads with the same reason and types of GPUs: both, their number, pods, milli-GPUs."""
PoolSums = dict[UUID | None, dict[str, int]]
"""The fields of `PoolBar` that are not zero, by pool; under None what counts in every pool."""


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """How many workloads of a team and all below it are pending and not on hold, and for how many milli-GPUs;
    `not_queued` of them stand in no queue.
    """

    workloads: int = 0
    milli: int = 0
    not_queued: int = 0


MOST_IDS = 1000

NOT_DECIDED = "not-decided-yet"
"""Stands for the reason of those that no cycle has looked at."""
IDLE = "held-and-idle"
NO_LIMITS = engine.TeamFigures("", "", 0, None, 0, 0, 0, 0)
"""Stands in before the first cycle that knows the team."""


@dataclass(frozen=True, slots=True)
class TeamBar:
    """A team with all below it in one pool of `pool_milli`, which are `pool_devices`; `limits` are of the last cycle.

    What is in use has so many `slices`, which count `slices_milli` of it.
    """

    team: Team
    pool: Pool
    pool_milli: int
    use: AllocatedUse
    limits: engine.TeamFigures
    waiting: WaitingCount
    slices: int = 0
    slices_milli: int = 0
    pool_devices: str = ""

    @property
    def in_use(self) -> str:
        """What is in use: "2 GPUs and 3 slices worth 0.429 GPUs"."""
        return amount_text(self.use.in_use_milli, self.slices, self.slices_milli)


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many workloads wait for one reason, and for how many milli-GPUs."""

    code: str
    count: int
    milli: int

    @property
    def label(self) -> str:
        """The reason in words."""
        return label(self.code)

    @property
    def kind(self) -> str:
        """Who can do something about it."""
        return kind_of(self.code)


@dataclass(frozen=True, slots=True)
class _Group:
    """Open attempts of one team, class and allocation."""

    pool_id: UUID
    team_path: str
    reserved: bool
    allocation: list[dict[str, Any]]
    attempts: int

    def parts(self) -> Iterator[tuple[str | None, int]]:
        """Return whose guarantee each part is charged to, as in a path (None: burst), and its milli-GPUs."""
        for entry in self.allocation:
            team = entry["team"]
            yield (None if team is None else team.replace("-", "")), int(entry["milli"]) * self.attempts


def pool_bars(user: "User | AnonymousUser", *, sums: Callable[[], PoolSums] | None = None) -> list[PoolBar]:
    """Return the pools the user may see, in the organisation's order (6 queries).

    `sums` may give what `pool_sums` returned before; it is the same for everybody.
    """
    pools = list(Pool.objects.visible_to(user))
    if not pools:
        return []
    found = (sums or pool_sums)()
    anywhere = found.get(None, {})
    bars = [PoolBar(pool, **found.get(pool.pk, {})) for pool in pools]
    return [replace(bar, **{key: getattr(bar, key) + more for key, more in anywhere.items()}) for bar in bars]


def pool_sums() -> PoolSums:
    """Return the numbers of the bar of every pool that has any, whoever looks (5 queries)."""
    uses: dict[UUID, AllocatedUse] = defaultdict(AllocatedUse)
    for group in _groups(Q()):
        for charged, milli in group.parts():
            _count(uses[group.pool_id], milli, reserved=group.reserved, covered=charged is not None)
    found: PoolSums = {pool_id: asdict(use) for pool_id, use in uses.items()}
    for pool_id, devices in _devices().items():
        found.setdefault(pool_id, {}).update(devices)
    waiting, not_queued = _waiting_by_pool()
    for key, count in waiting.items():
        sums = {"waiting": count, "not_queued": not_queued[key]}
        found.setdefault(None if key is None else UUID(key), {}).update(sums)
    return found


def _waiting_by_pool() -> tuple[Counter[str | None], Counter[str | None]]:
    """Return how many are pending and not on hold for which pool, and how many of them stand in no queue (2 queries).

    One that waits in no pool's queue waits for each that it accepts; those that accept any stand under None.
    """
    last = last_cycle.last()
    since = newcomers.since(last)
    waiting, not_queued = Counter[str | None](), Counter[str | None]()
    for pool, queue in (last.content["queues"] if last else {}).items():
        waiting[pool] += sum(since.waits(row[0]) for row in queue)
    for aside in last.set_aside() if last else ():
        if since.waits(aside.workload, held=aside.held):
            not_queued.update(_accepted(aside.pools))
    for row in since.came:
        if not row.held:
            waiting.update(_accepted(row.pools))
    return waiting + not_queued, not_queued


def _accepted(pools: Sequence[str] | None) -> Sequence[str | None]:
    return pools or (None,)


def team_bars(
    user: "User | AnonymousUser", pool: Pool, *, teams: Sequence[Team] | None = None
) -> list[TeamBar]:
    """Return the teams the user may see, or some of them, with their part of the pool (7 queries, 1 more where
    it has slices)."""
    teams = list(Team.objects.visible_to(user).active()) if teams is None else teams
    if not teams:
        return []
    uses: dict[str, AllocatedUse] = defaultdict(AllocatedUse)
    for group in _groups(Q(pool=pool) & _at_or_below(teams)):
        way = group.team_path.strip("/").split("/")
        for charged, milli in group.parts():
            # A team's guarantee covers what is charged to it or below it; what is charged above is its burst.
            covered_down_to = way.index(charged) if charged in way else -1
            for depth, team_id in enumerate(way):
                _count(uses[team_id], milli, reserved=group.reserved, covered=depth <= covered_down_to)
    size = _size(pool)
    cut = _slices_in_use(pool) if size.slices else {}
    last = last_cycle.last()
    limits = last.teams if last else {}
    waiting = _waiting_by_team(last, pool)
    return [
        TeamBar(
            team,
            pool,
            size.capacity_milli,
            uses[team.pk.hex],
            limits.get((str(team.pk), str(pool.pk)), NO_LIMITS),
            waiting[str(team.pk)],
            *cut.get(team.pk.hex, (0, 0)),
            size.devices,
        )
        for team in teams
    ]


def _waiting_by_team(last: last_cycle.LastCycle | None, pool: Pool) -> dict[str, WaitingCount]:
    """Return who is pending for the pool and not on hold, by team with all below it.

    2 queries; 1 more while no cycle ends, or where some stand in no queue.
    """
    since, key = newcomers.since(last), str(pool.pk)
    here = [row for row in since.of_pool(key) if not row.held]
    counts = Counter[str]()
    milli = Counter[str]()
    told = last.waiting(key) if last is not None else {}
    for team, (workloads, gpus) in told.items():
        counts[team] += workloads
        milli[team] += gpus
    gone = {row for row in last.queue(key) if not since.waits(row)} if last is not None else set()
    aside = last.outside(key) if last is not None else []
    outside = {row.workload for row in aside if since.waits(row.workload, held=row.held)}
    signs = dict.fromkeys(gone, -1) | dict.fromkeys(outside, 1)
    steps = [(path, signs[pk], signs[pk] * size, pk in outside) for pk, path, size in _sizes(signs.keys())]
    came = _paths({row.team_id for row in here})
    steps += [(came[row.team_id], 1, row.milli, False) for row in here]
    not_queued = Counter[str]()
    for path, step, change, is_aside in steps:
        for team in path.strip("/").split("/"):
            counts[str(UUID(team))] += step
            milli[str(UUID(team))] += change
            not_queued[str(UUID(team))] += is_aside
    return defaultdict(
        WaitingCount,
        {team: WaitingCount(counts[team], max(0, milli[team]), not_queued[team]) for team in counts},
    )


def _sizes(workloads: Set[str]) -> Iterator[tuple[str, str, int]]:
    """Yield these workloads with the paths of their teams and what they ask for in milli-GPUs: 1 query for
    each thousand of them, as a database takes only so many ids.
    """
    columns = ("id", "team__path", "pods", "gpu_milli", "gpu_types")
    rows = Workload.objects.order_by().values_list(*columns)
    ids = sorted(workloads)
    for start in range(0, len(ids), MOST_IDS):
        for pk, path, *asked in rows.filter(pk__in=ids[start : start + MOST_IDS]):
            yield str(pk), path, newcomers.size_milli(*asked)


def _paths(teams: set[UUID]) -> dict[UUID, str]:
    """Return the teams' paths (1 query, none without any)."""
    return dict(Team.objects.filter(pk__in=teams).values_list("pk", "path")) if teams else {}


def queue_by_reason(user: "User | AnonymousUser") -> list[ReasonCount]:
    """Return why the workloads that the user may see wait, the most frequent reason first (1 query)."""
    return _by_frequency(_pending_by_reason(user))


def waiting_and_idle(user: "User | AnonymousUser", now: datetime) -> tuple[list[ReasonCount], ReasonCount]:
    """Return why the workloads that the user may see wait, and how many of those that run hold how much idle
    (1 query).
    """
    holding = Workload.objects.visible_to(user).with_idle_gpus(now).order_by()
    idle = (
        holding.annotate(what=Value(IDLE))
        .values_list("what", "gpu_types")
        .annotate(
            count=Count("id"),
            all_pods=Sum("pods"),
            milli=Coalesce(Sum("attempt__gpu_use__idle_milli"), 0),
        )
    )
    rows = list(_pending_by_reason(user).union(idle, all=True))
    held = [(count, milli) for what, _, count, _, milli in rows if what == IDLE]
    return _by_frequency(row for row in rows if row[0] != IDLE), ReasonCount(
        IDLE, sum(count for count, _ in held), sum(milli for _, milli in held)
    )


def _pending_by_reason(user: "User | AnonymousUser") -> "QuerySet[Workload, Group]":
    """Return how many wait for each reason and types of GPUs, with how many pods, for how many milli-GPUs; "" is the
    reason of those not looked at.
    """
    pending = Workload.objects.visible_to(user).filter(status=Status.PENDING).order_by()
    milli = Coalesce(Sum(F("pods") * F("gpu_milli")), 0)
    return pending.values_list("reason_code", "gpu_types").annotate(
        count=Count("id"), all_pods=Sum("pods"), milli=milli
    )


def _by_frequency(rows: Iterable[Group]) -> list[ReasonCount]:
    counts: dict[str, ReasonCount] = {}
    for stored, gpu_types, count, pods, asked_milli in rows:
        code = stored or NOT_DECIDED
        # Slices count as their share, whatever part of one was asked for.
        slices = known.asked_slices(gpu_types, pods) if gpu_types else None
        before = counts.get(code, ReasonCount(code, 0, 0))
        more = asked_milli if slices is None else slices.milli
        counts[code] = ReasonCount(code, before.count + count, before.milli + more)
    return sorted(counts.values(), key=lambda count: (-count.count, count.code))


def _count(use: AllocatedUse, milli: int, *, reserved: bool, covered: bool) -> None:
    if reserved:
        use.reserved_milli += milli
    elif covered:
        use.elastic_milli += milli
    else:
        use.burst_milli += milli


def _groups(wanted: Q) -> list[_Group]:
    """Return what is allocated, a row for each different allocation, not for each attempt (1 query)."""
    reserved = Case(
        When(workload__priority__gte=RESERVED_FROM, then=1), default=0, output_field=IntegerField()
    )
    open_attempts = Attempt.objects.filter(wanted, released_at__isnull=True, ended_at__isnull=True).order_by()
    rows = open_attempts.annotate(reserved=reserved).values_list(
        "pool_id", "workload__team__path", "reserved", "allocation"
    )
    return [
        _Group(pool_id, path, bool(is_reserved), allocation, attempts)
        for pool_id, path, is_reserved, allocation, attempts in rows.annotate(attempts=Count("id"))
    ]


def _at_or_below(teams: Sequence[Team]) -> Q:
    """Return the attempts of these teams and of all below them."""
    ways = Q()
    for path in outermost(team.path for team in teams):
        ways |= Q(workload__team__path__startswith=path)
    return ways


def _size(pool: Pool) -> PoolBar:
    """Return the pool's devices as `PoolBar` has them, and nothing of their use (1 query)."""
    present = Device.objects.filter(node__gone_at__isnull=True, node__pool=pool).order_by()
    found = present.aggregate(capacity_milli=Coalesce(Sum("share_milli"), 0), **SLICES)
    return PoolBar(pool, **found)


def _slices_in_use(pool: Pool) -> dict[str, tuple[int, int]]:
    """Return how many slices of the pool each team with all below it holds, and their milli-GPUs (1 query)."""
    lying = Placement.objects.filter(hold__in=[Hold.PROMISED, Hold.HELD], attempt__pool=pool).order_by()
    cut = lying.filter(attempt__ended_at__isnull=True).exclude(device__slicing=DeviceSlicing.WHOLE)
    rows = cut.values_list("attempt__workload__team__path")
    found: dict[str, tuple[int, int]] = {}
    for path, count, milli in rows.annotate(count=Count("id"), milli=Sum("share_milli")):
        for team in path.strip("/").split("/"):
            slices, in_sum = found.get(team, (0, 0))
            found[team] = (slices + count, in_sum + milli)
    return found


def _devices() -> PoolSums:
    """Return what `PoolBar` says of each pool's devices (1 query)."""
    present = Device.objects.filter(node__gone_at__isnull=True, node__pool__isnull=False).order_by()
    rows = present.values_list("node__pool").annotate(
        capacity=Sum("share_milli"), unavailable=Sum(UNAVAILABLE_MILLI), **SLICES
    )
    return {
        pool: {
            "capacity_milli": capacity_milli,
            "unavailable_milli": down_milli,
            "slices": slices,
            "slices_milli": slices_milli,
        }
        for pool, capacity_milli, down_milli, slices, slices_milli in rows
    }
