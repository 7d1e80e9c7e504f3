"""What a workload or an array starts after, and what starts after it: as lists, and as a small graph by levels."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Q

from workloads import needs
from workloads.models import Dependency, DependencyKind, Status, Workload, WorkloadArray
from workloads.models.workload import OPEN

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

MOST_LEVELS = 3
"""Levels that are shown on each side."""
MOST_SHOWN = 8
"""Workloads and arrays that are shown of a level; the rest is counted."""
MOST_READ = 200
"""Workloads that are looked at of a level."""
WORDS = {
    DependencyKind.AFTER_OK: "completed",
    DependencyKind.AFTER_ANY: "ended",
    DependencyKind.AFTER_NOT_OK: "ended otherwise than completed",
}


@dataclass(frozen=True, slots=True)
class ShownNeed:
    """Something that a workload starts after, and that the reader may see."""

    kind: str
    slug: str
    name: str
    is_array: bool
    status: str

    @property
    def written(self) -> str:
        """Return it as a submission writes it."""
        return needs.written(self.kind, self.slug)

    @property
    def end(self) -> str:
        """Return which end it takes, in words."""
        return WORDS[DependencyKind(self.kind)]

    @property
    def label(self) -> str:
        """Return its status in words; an array has none."""
        return Status(self.status).label if self.status else ""


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A workload or an array in a graph; `current` is the one whose page it is."""

    slug: str
    name: str
    is_array: bool
    status: str
    current: bool = False

    @property
    def label(self) -> str:
        """Return it in words, with its status."""
        return f"{self.name} (array)" if self.is_array else f"{self.name} ({Status(self.status).label})"


@dataclass(frozen=True, slots=True)
class ChainLevel:
    """What stands side by side: all of it starts after some of the level before."""

    links: Sequence[ChainLink]
    more: int = 0

    @property
    def text(self) -> str:
        """Return it in words."""
        told = [link.label for link in self.links] + ([f"{self.more} more"] if self.more else [])
        return ", ".join(told)


def needs_of(workload: Workload, user: "User | AnonymousUser") -> list[ShownNeed]:
    """Return what it starts after, as far as the user may see it (3 queries at most)."""
    rows = list(Dependency.objects.filter(workload=workload).order_by("-created_at", "-pk"))
    seen = Workload.objects.visible_to(user).in_bulk([row.needs_id for row in rows if row.needs_id])
    ids = [row.needs_array_id for row in rows if row.needs_array_id]
    arrays = WorkloadArray.objects.visible_to(user).in_bulk(ids) if ids else {}
    found = []
    for row in rows:
        one = seen.get(row.needs_id) if row.needs_id else None
        array = arrays.get(row.needs_array_id) if row.needs_array_id else None
        if one is not None:
            found.append(ShownNeed(row.kind, one.slug, one.name, is_array=False, status=one.status))
        elif array is not None:
            found.append(ShownNeed(row.kind, array.slug, array.name, is_array=True, status=""))
    return found


Node = tuple[str, UUID]
"""A workload that is no member, or an array, by its kind and id."""


def chain_of(of: Workload | WorkloadArray, user: "User | AnonymousUser") -> list[ChainLevel]:
    """Return the levels around a workload or an array, what comes first first; nothing where it stands alone.

    Two queries for each level, and two more for what they show.
    """
    here = _node_of(of)
    before, after = _levels({here}, _needed_by), _levels({here}, _waiting_for)
    if not before and not after:
        return []
    levels = [*reversed(before), {here}, *after]
    nodes = {node for level in levels for node in level}
    links = _links(nodes, user, here)
    seen = [[links[node] for node in level if node in links] for level in levels]
    return [_level(each) for each in seen if each] if len(links) > 1 else []


def _level(links: Sequence[ChainLink]) -> ChainLevel:
    shown = sorted(links, key=lambda link: (link.status not in OPEN, link.name, link.slug))[:MOST_SHOWN]
    return ChainLevel(shown, len(links) - len(shown))


def _node_of(of: Workload | WorkloadArray) -> Node:
    if isinstance(of, WorkloadArray):
        return "array", of.pk
    return ("array", of.array_id) if of.array_id else ("one", of.pk)


def _levels(start: set[Node], step: "_Step") -> list[set[Node]]:
    """Return up to `MOST_LEVELS` levels from there, each node at the first at which it comes."""
    seen, level, found = set(start), start, []
    for _ in range(MOST_LEVELS):
        level = set(step(level)) - seen
        if not level:
            break
        seen |= level
        found.append(level)
    return found


class _Step:
    """One level on."""

    def __init__(self, *, back: bool) -> None:
        self._back = back

    def __call__(self, level: Collection[Node]) -> Iterable[Node]:
        """Yield what these start after, or what starts after these."""
        ones = {key for kind, key in level if kind == "one"}
        arrays = {key for kind, key in level if kind == "array"}
        if self._back:
            of = Q(workload__in=ones) | Q(workload__array__in=arrays, workload__folded__isnull=True)
            found = Dependency.objects.filter(of).values_list("needs", "needs__array", "needs_array")
            for one, array_of_one, array in found.distinct()[:MOST_READ]:
                yield ("array", array or array_of_one) if array or array_of_one else ("one", one)
            return
        of = Q(needs__in=ones) | Q(needs_array__in=arrays) | Q(needs__array__in=arrays)
        rows = Dependency.objects.filter(of, workload__folded__isnull=True)
        for one, array in rows.values_list("workload", "workload__array").distinct()[:MOST_READ]:
            yield ("array", array) if array else ("one", one)


_needed_by, _waiting_for = _Step(back=True), _Step(back=False)


def _links(nodes: Collection[Node], user: "User | AnonymousUser", here: Node) -> dict[Node, ChainLink]:
    ones = Workload.objects.visible_to(user).filter(pk__in=[key for kind, key in nodes if kind == "one"])
    arrays = WorkloadArray.objects.visible_to(user).filter(
        pk__in=[key for kind, key in nodes if kind == "array"]
    )
    found: dict[Node, ChainLink] = {}
    for pk, slug, name, status in ones.values_list("pk", "slug", "name", "status"):
        found["one", pk] = ChainLink(slug, name, is_array=False, status=status, current=("one", pk) == here)
    for pk, slug, name in arrays.values_list("pk", "slug", "name"):
        found["array", pk] = ChainLink(slug, name, is_array=True, status="", current=("array", pk) == here)
    return found
