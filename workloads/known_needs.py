"""What submissions start after: workloads and arrays that are there, and others of the same request, by their names."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Self
from uuid import UUID

from chamber.words import count
from teams.actors import Actor
from workloads import needs
from workloads.models import Workload, WorkloadArray
from workloads.requests import SubmissionRequest

MOST_HINTS = 10
"""Workloads that are looked for by name where what a submission depends on is not there, each a query."""


@dataclass(frozen=True, slots=True)
class KnownNeeds:
    """What is needed and the submitter may see, by its name in URLs; `meant` is a hint for each name that is none.

    `beside` are the places of the request's own workloads by name, for what nothing else has as its name in URLs;
    `circle` says who waits for whom of those that wait for each other, `deep` who has too many that wait before it.
    """

    workloads: Mapping[str, UUID] = field(default_factory=dict)
    arrays: Mapping[str, UUID] = field(default_factory=dict)
    meant: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Sequence[int]] = field(default_factory=dict)
    circle: Sequence[str] = ()
    deep: str = ""

    @classmethod
    def read(cls, by: Actor, requests: Sequence[SubmissionRequest]) -> Self:
        """Look up what these requests start after: no query where they start after nothing, else two, and some for
        chains.
        """
        named = {need.name for request in requests for need in request.needs}
        if not named or by.user is None:
            return cls()
        visible = Workload.objects.visible_to(by.user)
        workloads = dict(visible.filter(slug__in=named).values_list("slug", "pk"))
        rest = named - workloads.keys()
        arrays = _arrays(by, rest)
        rest -= arrays.keys()
        beside: dict[str, list[int]] = {}
        for place, request in enumerate(requests if len(requests) > 1 else ()):
            if request.name in rest:
                beside.setdefault(request.name, []).append(place)
        unknown = sorted(rest - beside.keys())
        return cls(
            workloads=workloads,
            arrays=arrays,
            meant={name: visible.meant_by(name) for name in unknown[:MOST_HINTS]},
            beside=beside,
            circle=_circle(requests, beside),
            deep=needs.too_deep(workloads, arrays),
        )

    def problem(self, request: SubmissionRequest) -> str:
        """Return what is wrong with what a request starts after; "" where nothing is."""
        told = (self._of_one(need.name) for need in request.needs)
        return next(filter(None, told), "") or self._of_circle(request.name) or _of_many(request)

    def _of_one(self, name: str) -> str:
        places = self.beside.get(name, ())
        if len(places) > 1:
            return (
                f"{count(len(places), 'workload')} of this request are called {name!r}: give them different names to "
                "start after one of them."
            )
        if name not in self.workloads and name not in self.arrays and not places:
            return f"There is no workload {name!r} that it could depend on.{self.meant.get(name, '')}"
        if name == self.deep:
            return (
                f"{name} is the last of {needs.MOST_DEEP} that start one after the other and have not ended: no more "
                "may. Submit this one once some have ended."
            )
        return ""

    def _of_circle(self, name: str) -> str:
        if name not in self.circle:
            return ""
        if len(self.circle) == 2:
            return f"{name} cannot start after itself."
        way = " and ".join(f"{a} waits for {b}" for a, b in pairwise(self.circle))
        return f"{way}: none of them would ever start."


def _of_many(request: SubmissionRequest) -> str:
    """Refuse an array whose members together would have too many rows."""
    rows = request.size * len(request.needs)
    if request.array is None or rows <= needs.MOST_ROWS:
        return ""
    return (
        f"{count(request.size, 'member')} that start after {len(request.needs):,} others each are {rows:,} "
        f"dependencies; at most {needs.MOST_ROWS:,} are allowed. Let one workload start after them, and this array "
        "after that one."
    )


def _arrays(by: Actor, names: Collection[str]) -> dict[str, UUID]:
    if not names or by.user is None:
        return {}
    rows = WorkloadArray.objects.visible_to(by.user).filter(slug__in=names)
    return dict(rows.values_list("slug", "pk"))


def _circle(requests: Sequence[SubmissionRequest], beside: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of workloads of the request that wait for each other, the first again at the end; or nothing."""
    graph = {
        place: [at for need in request.needs for at in beside.get(need.name, ())]
        for place, request in enumerate(requests)
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # Told in the order in which each has to be over before the next: the other way round is who waits for whom.
        return [requests[place].name for place in error.args[1]][::-1]
    return []
