"""An effect for one reader: names of what he may see, and of others' workloads only what anybody may know.

Of a workload of the pool that is its team, class, priority and GPUs; of a team that one may not see, nothing but that
there are such.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone

from scheduling import engine
from scheduling.engine.model.quantities import counted, in_gpus
from scheduling.explain import plan_text
from scheduling.explain.explanation import label, label_inside
from scheduling.explain.plan_text import PlanNames
from scheduling.explain.reader import Reader, called, eta_in_words
from scheduling.whatif.asking import DraftAnswer
from scheduling.whatif.effect import Change, Effect, PoolEffect, TeamEffect, WorkloadEffect
from teams.models import Pool, Team
from teams.permissions import Permission, may
from teams.values import amount_text
from workloads.models import Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

NEWCOMER = "the new workload"
LISTED = 10
"""So many workloads of each change stand on a page; all are counted there."""
WORDS = {
    Change.BLOCKS: "Is waited for",
    Change.PREEMPTED: "Preempted",
    Change.SHRUNK: "Gives up pods",
    Change.NO_LONGER_STARTS: "Would not start",
    Change.WAITS_LONGER: "Waits longer",
    Change.OTHER_REASON: "Waits for another reason",
    Change.STARTS: "Starts",
    Change.WAITS_LESS: "Waits less",
    Change.SPARED: "Not preempted",
}
RIGHT = {
    engine.Rule.RESERVED: "which is reserved and inside its guarantee",
    engine.Rule.PRIORITY: "which has a higher priority",
    engine.Rule.FAIR_SHARE: "whose team has less than its share",
}


@dataclass(frozen=True, slots=True)
class ToldWorkload:
    """A workload for which something changes. `workload` is None where the reader may not know which one it is."""

    change: Change
    workload: Workload | None
    is_new: bool
    team: str
    pool: Pool | None
    reserved: bool
    priority: int
    gpus_milli: int | None
    slices: int
    why: str
    by: str = ""
    rule: str = ""
    before: str = ""
    after: str = ""

    @property
    def words(self) -> str:
        """What becomes of it."""
        return WORDS[self.change]


@dataclass(frozen=True, slots=True)
class ToldTeam:
    """A team that the reader may see, in one pool, before and after."""

    team: Team
    pool: Pool
    effect: TeamEffect


@dataclass(frozen=True, slots=True)
class ToldPool:
    """A pool before and after."""

    pool: Pool
    effect: PoolEffect

    @property
    def differs(self) -> bool:
        """Whether its size or use differs; where they do not, its guarantees are above its capacity or no longer."""
        before, after = self.effect.before, self.effect.after
        return (before.capacity_milli, before.in_use_milli) != (after.capacity_milli, after.in_use_milli)


@dataclass(frozen=True, slots=True)
class ToldCount:
    """How many workloads of a team share a change."""

    change: Change
    team: str
    workloads: int
    gpus_milli: int
    slices: int
    slices_milli: int

    @property
    def amount(self) -> str:
        """Their GPUs: "8 GPUs and 1 slice worth 0.143 GPUs"."""
        return amount_text(self.gpus_milli, self.slices, self.slices_milli)

    @property
    def words(self) -> str:
        """What becomes of them."""
        return WORDS[self.change]


@dataclass(frozen=True, slots=True)
class ToldEffect:
    """What a draft would change, for one reader.

    `others_less` and `others_more` count the teams he may not see whose entitlement falls or rises.
    """

    outcome: str
    warnings: list[str]
    notes: list[str]
    pools: list[ToldPool]
    teams: list[ToldTeam]
    others_less: int
    others_more: int
    counts: list[ToldCount]
    workloads: list[ToldWorkload]
    cycles: int
    settled: bool

    @property
    def nothing(self) -> bool:
        """Whether nothing would change."""
        return not (self.outcome or self.warnings or self.pools or self.teams or self.counts or self.others)

    @property
    def others(self) -> int:
        """How many teams change that the reader may not see."""
        return self.others_less + self.others_more

    @property
    def filled(self) -> list[ToldPool]:
        """The pools of which more or less would be used, or there."""
        return [row for row in self.pools if row.differs]

    @property
    def listed(self) -> list[ToldWorkload]:
        """The first few of each change, for a page."""
        return [
            row for _, rows in groupby(self.workloads, attrgetter("change")) for row in islice(rows, LISTED)
        ]

    @property
    def unlisted(self) -> int:
        """How many workloads change that a page only counts."""
        return sum(count.workloads for count in self.counts) - len(self.listed)


def tell(answer: DraftAnswer, user: "User | AnonymousUser") -> ToldEffect:
    """Return the effect for this reader (at most 4 queries)."""
    effect, names = answer.effect, answer.names
    visible, pools = _visible(effect, user), {str(pool.pk): pool for pool in Pool.objects.all()}
    teller = _Teller(effect, names, user, pools)
    less, more = _of_others(effect, visible)
    return ToldEffect(
        outcome=teller.outcome(),
        warnings=list(_warnings(effect, names, visible)),
        notes=list(answer.notes),
        pools=[ToldPool(pools[row.pool], row) for row in effect.pools if row.pool in pools],
        teams=[
            ToldTeam(visible[row.team], pools[row.pool], row)
            for row in _in_order(effect.teams, pools, visible)
        ],
        others_less=less,
        others_more=more,
        counts=[
            ToldCount(
                count.change,
                _team(names, count.team),
                count.workloads,
                count.gpus_milli,
                count.slices,
                count.slices_milli,
            )
            for count in effect.counts
        ],
        workloads=teller.workloads(),
        cycles=effect.cycles,
        settled=effect.settled,
    )


def _visible(effect: Effect, user: "User | AnonymousUser") -> dict[str, Team]:
    """Return the teams of the effect that the reader may see, in the order of the tree, by their ids (1 query)."""
    wanted = {row.team for row in effect.teams} | {row.team for row in effect.guarantees}
    wanted |= {finding.team for finding in effect.findings if finding.team}
    if not wanted:
        return {}
    found = Team.objects.visible_to(user).filter(pk__in=wanted).order_by("path")
    return {str(team.pk): team for team in found}


def _in_order(
    rows: Sequence[TeamEffect], known: Mapping[str, Pool], visible: dict[str, Team]
) -> list[TeamEffect]:
    """Return the rows of visible teams: pool by pool as the organisation has them, in each in the order of the tree."""
    pools, teams = list(known), {key: at for at, key in enumerate(visible)}
    shown = [row for row in rows if row.team in teams and row.pool in known]
    return sorted(shown, key=lambda row: (pools.index(row.pool), teams[row.team]))


def _warnings(effect: Effect, names: PlanNames, visible: dict[str, Team]) -> Iterator[str]:
    """Yield what is new and worth a warning: whose guarantees do not fit, who would be above his ceiling."""
    for finding in effect.findings:
        if finding.code is engine.FindingCode.OVERSUBSCRIBED:
            rows = [row for row in effect.guarantees if row.pool == finding.pool]
            shown = [row for row in rows if row.team in visible]
            whose = [f"{_team(names, row.team)} {in_gpus(row.guarantee_milli)}" for row in shown]
            others = sum(row.guarantee_milli for row in rows if row.team not in visible)
            whose += [f"other teams {in_gpus(others)}"] if others else []
            yield f"{finding.message} Guaranteed are: {', '.join(whose)}." if whose else finding.message
        elif finding.team is None or finding.team in visible:
            yield finding.message


def _of_others(effect: Effect, visible: dict[str, Team]) -> tuple[int, int]:
    """Return how many teams out of sight would be entitled to less, and to more."""
    changes = [
        (row.team, row.after.entitlement_milli - row.before.entitlement_milli)
        for row in effect.teams
        if row.team not in visible
    ]
    return len({team for team, by in changes if by < 0}), len({team for team, by in changes if by > 0})


def _team(names: PlanNames, team: str) -> str:
    return names.teams.get(team, "a former team")


def _workloads(count: int) -> str:
    return counted(count, "workload")


class _Teller:
    """Tells of workloads to one reader; their rows are read once."""

    def __init__(
        self, effect: Effect, names: PlanNames, user: "User | AnonymousUser", pools: Mapping[str, Pool]
    ) -> None:
        self._effect, self._names, self._user, self._pools = effect, names, user, pools
        self._now = timezone.now()
        self._reader = Reader(user, names)
        rows = effect.workloads
        ids = {row.workload for row in rows} | {row.yielding.by for row in rows if row.yielding}
        named = Workload.objects.filter(pk__in=[UUID(key) for key in ids]).select_related("team")
        self._rows = {str(row.pk): row for row in named} if ids else {}
        self._reader.learn(self._sentences())

    def outcome(self) -> str:
        """Return what becomes of the draft's own workload; empty where it has none."""
        for fate in self._effect.newcomers.values():
            if isinstance(fate, engine.Wait):
                return f"It would wait. {self._reader.read(fate.reason.message)}"
            whom = f" after preempting {_workloads(len(fate.victims))}" if fate.victims else ""
            return f"It would start{whom} with {plan_text.given(fate, self._names)}."
        return ""

    def workloads(self) -> list[ToldWorkload]:
        """Return those that are named."""
        return [self._told(row) for row in self._effect.workloads]

    def _sentences(self) -> Iterator[str]:
        for row in self._effect.workloads:
            if row.after is not None:
                yield row.after.reason.message
        for fate in self._effect.newcomers.values():
            if isinstance(fate, engine.Wait):
                yield fate.reason.message

    def _told(self, row: WorkloadEffect) -> ToldWorkload:
        found = self._rows.get(row.workload)
        shown = found is not None and may(self._user, Permission.VIEW_WORKLOADS, found.team)
        return ToldWorkload(
            change=row.change,
            workload=found if shown else None,
            is_new=found is None,
            team=_team(self._names, row.team),
            pool=self._pools.get(row.pool or ""),
            reserved=row.priority >= engine.RESERVED_PRIORITY,
            priority=row.priority,
            gpus_milli=row.gpus_milli,
            slices=row.slices,
            why=self._why(row, shown=shown),
            by=self._by(row),
            rule=row.yielding.rule.value if row.yielding else "",
            before=row.before.reason.code.value if row.before else "",
            after=row.after.reason.code.value if row.after else "",
        )

    def _by(self, row: WorkloadEffect) -> str:
        if row.yielding is None:
            return ""
        by = self._rows.get(row.yielding.by)
        return called(by, self._user) if by else NEWCOMER

    def _why(self, row: WorkloadEffect, *, shown: bool) -> str:
        if row.change is Change.BLOCKS:
            return "Reserved work is not preempted; the node is empty when it has ended."
        if row.change in {Change.PREEMPTED, Change.SHRUNK, Change.SPARED}:
            return self._why_yields(row)
        if row.change is Change.STARTS:
            return self._why_starts(row)
        if row.after is None:
            return ""
        if row.change in {Change.WAITS_LONGER, Change.WAITS_LESS}:
            return self._when(row)
        sentence = (
            self._reader.read(row.after.reason.message) if shown else f"{label(row.after.reason.code)}."
        )
        was = f" Without the change: {label_inside(row.before.reason.code)}." if row.before else ""
        return sentence + was

    def _why_yields(self, row: WorkloadEffect) -> str:
        again = "It starts again elsewhere." if row.comes_back else "It waits again."
        after = "It ends." if row.ends else again
        if row.yielding is None:
            return (
                "Its pods on drained nodes."
                if row.change is Change.SHRUNK
                else f"Its node is drained. {after}"
            )
        by = f"{self._by(row)}, {RIGHT[row.yielding.rule]}"
        if row.change is Change.SPARED:
            return f"Without the change it yields to {by}."
        if isinstance(row.yielding, engine.Shrink):
            pods = len(row.yielding.pods)
            return f"{'One pod' if pods == 1 else f'{pods} pods'} for {by}."
        return f"For {by}. {after}"

    def _why_starts(self, row: WorkloadEffect) -> str:
        was = f"Without the change: {label_inside(row.before.reason.code)}." if row.before else ""
        whom = f"Preempts {_workloads(len(row.start.victims))}. " if row.start and row.start.victims else ""
        return whom + was

    def _when(self, row: WorkloadEffect) -> str:
        assert row.before is not None  # noqa: S101 - `effect` compared two waits
        assert row.after is not None  # noqa: S101 - likewise
        if row.before.eta.earliest is not None and row.after.eta.earliest is not None:
            old, new = (eta_in_words(wait.eta, self._now) for wait in (row.before, row.after))
            return f"Starts {new} instead of {old}."
        return f"Position {row.after.position} in the queue instead of {row.before.position}."
