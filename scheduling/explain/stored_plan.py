"""What a plan tells people, small enough to be stored with each cycle and read at once by every process.

Reasons and sentences that many share are written once, and a waiting workload is a short row that names them by their
number. Plain lists and dicts: what a page does not ask for is never turned into objects.
"""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from scheduling import engine

FORM = 2
"""Raised with each change of what is written: a process reads its own form only."""

Row = list[Any]
"""Workload, number of its reason, earliest and latest start, number of why that is not known."""
Json = dict[str, Any]


class _Once:
    """Things that are written once, by number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, thing: Any) -> int:
        """Return the number of the thing, a new one at its first time."""
        return self.numbers.setdefault(thing, len(self.numbers))


def tell(plan: engine.Plan, snapshot: engine.Snapshot) -> Json:
    """Return what pages need of the plan: who waits where and why, what is kept for whom, figures, and names."""
    reasons, whys = _Once(), _Once()
    workloads = {workload.id: workload for workload in snapshot.workloads}
    queues: dict[str, list[Row]] = defaultdict(list)
    aside: dict[str, list[Row]] = defaultdict(list)
    waiting: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for wait in plan.waits:
        eta, pool = wait.eta, wait.pool or ""
        row = [wait.workload, reasons.number(wait.reason), eta.earliest, eta.latest, whys.number(eta.why)]
        (aside if wait.position is None else queues)[pool].append(row)
        if wait.position is not None:
            sums = waiting[pool][workloads[wait.workload].team]
            sums[0] += 1
            sums[1] += wait.reason.asked_milli or 0
    placed = [(keep.workload, keep.reason) for keep in plan.keeps if keep.reason is not None]
    placed += [(start.workload, start.reason) for start in plan.starts if start.reason is not None]
    kept = {node for reservation in plan.reservations for node in reservation.nodes}
    return {
        "form": FORM,
        "queues": queues,
        "aside": aside,
        "waiting": waiting,
        "accepts": {row[0]: workloads[row[0]].pools for row in aside[""]},
        "placed": {workload: reasons.number(reason) for workload, reason in placed},
        "reasons": [astuple(reason) for reason in reasons.numbers],
        "whys": list(whys.numbers),
        "reservations": [astuple(reservation) for reservation in plan.reservations],
        "pools": [astuple(figures) for figures in plan.pools],
        "teams": [astuple(figures) for figures in plan.teams],
        "names": {
            "teams": {team.id: [team.name, team.parent] for team in snapshot.teams},
            "pools": {pool.id: pool.name for pool in snapshot.pools},
            "nodes": {node.id: node.name for node in snapshot.nodes if node.id in kept},
        },
    }


def pack(told: Json) -> bytes:
    """Return it as it is stored."""
    return zlib.compress(json.dumps(told, separators=(",", ":")).encode(), 1)


def unpack(stored: bytes | memoryview) -> Json | None:
    """Return what was stored; None where another release wrote it in another form."""
    told: Json = json.loads(zlib.decompress(stored))
    return told if told.get("form") == FORM else None


@dataclass(frozen=True, slots=True)
class Waits:
    """Who waits, by workload; each turned into an object when it is asked for."""

    told: Json
    places: Mapping[str, tuple[str, int | None, Row]]

    @classmethod
    def of(cls, told: Json) -> "Waits":
        """Return those of a plan."""
        places: dict[str, tuple[str, int | None, Row]] = {}
        for pool, rows in told["queues"].items():
            places.update((row[0], (pool, position, row)) for position, row in enumerate(rows, start=1))
        for pool, rows in told["aside"].items():
            places.update((row[0], (pool, None, row)) for row in rows)
        return cls(told, places)

    def get(self, workload: str) -> engine.Wait | None:
        """Return how a workload waits; None where it does not."""
        place = self.places.get(workload)
        if place is None:
            return None
        pool, position, (_, reason, earliest, latest, why) = place
        eta = engine.Eta(earliest, latest, self.told["whys"][why])
        return engine.Wait(workload, pool or None, position, reason_of(self.told, reason), eta)


def reason_of(told: Json, number: int) -> engine.Reason:
    """Return a reason by its number."""
    code, kind, *rest = told["reasons"][number]
    return engine.Reason(engine.ReasonCode(code), engine.ReasonKind(kind), *rest)


def reservations_of(rows: Iterable[Row]) -> list[engine.StartReservation]:
    """Return what is kept for whom."""
    return [engine.StartReservation(workload, pool, tuple(nodes), at) for workload, pool, nodes, at in rows]
