"""What a workload starts after: how a submission names it, which ends let it start, what is said of those that wait.

`NAME` is a workload, or all members of an array, that have to complete first; `afterany:NAME` lets any end do, and
`afternotok:NAME` any but completed. Nothing is noted as ends come: statuses are looked at when it is asked.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from django.db.models import Count

from chamber.words import count
from teams.models import Team
from workloads.models import Dependency, DependencyKind, Status, Workload
from workloads.models.workload import OPEN

LONGEST = 72
"""The name of a kind, a colon, and a name in URLs."""
MOST_DEEP = 50
"""So many that have not ended may start one after the other."""
MOST_ROWS = 50_000
"""Dependencies that one array may have: of each member on each that it starts after."""
AFTER_OK = DependencyKind.AFTER_OK


class NeedOutcome(Enum):
    """What the statuses of what is needed mean for a workload that starts after it."""

    MET = "met"
    WAITING = "waiting"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class AskedNeed:
    """What a submission says that it starts after."""

    kind: DependencyKind
    name: str

    @classmethod
    def parse(cls, text: str) -> "AskedNeed":
        """Return what is written; raise `ValueError` where it is none."""
        kind, colon, name = text.rpartition(":")
        if not colon:
            return cls(AFTER_OK, text)
        if kind not in DependencyKind.values or not name:
            allowed = ", ".join(f"{each}:NAME" for each in DependencyKind.values)
            raise ValueError(
                f"depends_on has {text!r}; write the name of a workload or an array, or {allowed}."
            )
        return cls(DependencyKind(kind), name)


def checked(texts: Iterable[str]) -> list[str]:
    """Return what is written, each once and plainly; raise `ValueError` where one is none, or is needed in two ways."""
    needs = list(dict.fromkeys(AskedNeed.parse(text) for text in texts))
    for name, n in Counter(need.name for need in needs).items():
        if n > 1:
            raise ValueError(f"{name} stands in depends_on in {n} ways: choose one of them.")
    return [written(need.kind, need.name) for need in needs]


def written(kind: str, name: str) -> str:
    """Return a need as a submission writes it."""
    return name if kind == AFTER_OK else f"{kind}:{name}"


def outcome(kind: str, statuses: Collection[str]) -> NeedOutcome:
    """Return what it means that one has, or the members of an array have, these statuses.

    That all have completed is known to be impossible as soon as one ended otherwise.
    """
    some_open = any(status in OPEN for status in statuses)
    spoilt = any(status not in OPEN and status != Status.COMPLETED for status in statuses)
    if kind == AFTER_OK and spoilt:
        return NeedOutcome.NEVER
    if some_open:
        return NeedOutcome.WAITING
    if kind == DependencyKind.AFTER_NOT_OK and not spoilt:
        return NeedOutcome.NEVER
    return NeedOutcome.MET


def statuses_of(arrays: Collection[UUID]) -> dict[UUID, Counter[str]]:
    """Return how many members of each array have which status (1 query, of an index alone; none for none)."""
    found: dict[UUID, Counter[str]] = {key: Counter() for key in arrays}
    if arrays:
        rows = Workload.objects.filter(array__in=arrays).order_by().values("array", "status")
        for array, status, n in rows.annotate(n=Count("pk")).values_list("array", "status", "n"):
            found[array][status] = n
    return found


def too_deep(workloads: Mapping[str, UUID], arrays: Mapping[str, UUID]) -> str:
    """Return the name of one of these behind which `MOST_DEEP` that have not ended wait for each other; "" for none (a
    query for each level, one more where there are arrays in it; the same again for each name where there is one).
    """
    if _depth(set(workloads.values()), set(arrays.values())) < MOST_DEEP:
        return ""
    for name, key in workloads.items():
        if _depth({key}, set()) >= MOST_DEEP:
            return name
    return next((name for name, key in arrays.items() if _depth(set(), {key}) >= MOST_DEEP), "")


def _depth(workloads: set[UUID], arrays: set[UUID]) -> int:
    """Return how many levels of open workloads lead to these, themselves included, up to `MOST_DEEP`."""
    for level in range(MOST_DEEP):
        if arrays:  # all members start after the same
            firsts = Workload.objects.filter(array__in=arrays, folded__isnull=True)
            workloads = workloads | set(firsts.values_list("pk", flat=True))
        if not workloads:
            return level
        rows = Dependency.objects.filter(workload__in=workloads, workload__status=Status.PENDING)
        found = list(rows.values_list("needs", "needs_array"))
        workloads = {needs for needs, _ in found if needs}
        arrays = {array for _, array in found if array}
    return MOST_DEEP


@dataclass(frozen=True, slots=True)
class UnmetNeed:
    """An array, or a workload of which another end than completed lets others start, that keeps one from starting.

    `statuses` says how many have which; of a workload one.
    """

    kind: DependencyKind
    slug: str
    team: Team
    owner_id: UUID
    is_array: bool
    statuses: Mapping[str, int]
    outcome: NeedOutcome

    def sentence(self, name: str) -> str:
        """Return what has to happen first, or cannot happen any more; `name` is what the reader may call it."""
        if self.outcome is NeedOutcome.NEVER and self.kind == AFTER_OK:
            spoilt = count(self._spoilt, "member")
            return f"{spoilt} of the array {name} ended otherwise than Completed, and all have to complete first."
        if self.outcome is NeedOutcome.NEVER:
            whole = f"All members of the array {name} have" if self.is_array else f"{name} has"
            return f"{whole} completed, and it starts only after another end."
        end = {
            DependencyKind.AFTER_OK: "completed",
            DependencyKind.AFTER_ANY: "ended",
            DependencyKind.AFTER_NOT_OK: "ended, and not as Completed",
        }[self.kind]
        if self.is_array:
            return f"It starts only after all members of the array {name} have {end}; {self._left}."
        return f"It starts only after {name} ({Status(next(iter(self.statuses))).label}) has {end}."

    def step(self, name: str) -> str:
        """Return what can be done where nothing comes of it by itself; "" where time does it."""
        if self.outcome is not NeedOutcome.NEVER:
            return ""
        if self.kind != AFTER_OK:
            return "Cancel this one: it is not needed."
        if name != self.slug:
            return f"Ask {self.team.name} to run these members again"
        failed = self.statuses.get(Status.FAILED, 0)
        retry = f"Retry the members that failed (chamber arrays retry {name})"
        if failed == self._spoilt:
            return retry
        rest = (
            f"those that were cancelled or preempted (chamber arrays members {name} --status cancelled --status "
            "preempted)"
        )
        return f"{retry}, and requeue {rest}" if failed else f"Requeue {rest}"

    @property
    def _spoilt(self) -> int:
        rest = {Status.COMPLETED, *OPEN}
        return sum(n for status, n in self.statuses.items() if status not in rest)

    @property
    def _left(self) -> str:
        left = sum(n for status, n in self.statuses.items() if status in OPEN)
        return f"{left:,} of {sum(self.statuses.values()):,} {'has' if left == 1 else 'have'} not"


def unmet(ids: Collection[UUID]) -> dict[UUID, list[UnmetNeed]]:
    """Return what these start after of other kinds than `workloads.dependencies` tells, as far as it keeps them from
    starting (2 queries at most, none for none).
    """
    if not ids:
        return {}
    rows = Dependency.objects.filter(workload__in=ids).exclude(kind=AFTER_OK, needs__isnull=False)
    rows = rows.select_related("needs__team", "needs_array__team").order_by("created_at", "pk")
    loaded = list(rows)
    arrays = statuses_of({row.needs_array_id for row in loaded if row.needs_array_id})
    found: dict[UUID, list[UnmetNeed]] = defaultdict(list)
    for row in loaded:
        of = row.needs or row.needs_array
        if of is None:
            continue
        statuses = arrays[of.pk] if row.needs is None else {row.needs.status: 1}
        came = outcome(row.kind, statuses)
        if came is not NeedOutcome.MET:
            kind = DependencyKind(row.kind)
            need = UnmetNeed(kind, of.slug, of.team, of.owner_id, row.needs is None, statuses, came)
            found[row.workload_id].append(need)
    return found


def never(ids: Collection[UUID]) -> dict[UUID, list[UnmetNeed]]:
    """Return those of `unmet` that cannot be met as things are (2 queries at most, none for none)."""
    found = {
        key: [need for need in needs if need.outcome is NeedOutcome.NEVER]
        for key, needs in unmet(ids).items()
    }
    return {key: needs for key, needs in found.items() if needs}
