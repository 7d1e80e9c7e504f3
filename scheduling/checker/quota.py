"""Guarantees, charges and ceilings after the plan (sections 2 and 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from scheduling.checker.picture import Action, Fate, Picture
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.snapshot import PLACED, WorkloadInfo

Parts = list[tuple[str | None, int]]
"""Whose own part pays how much; ``None`` for what nobody's does."""


def broken_quotas(books: Iterable[Book]) -> Iterator[Violation]:
    """Every rule of guarantees and ceilings that the plan breaks."""
    for book in books:
        yield from _allocations(book)
        yield from _ceilings(book)


def admitted(workload: WorkloadInfo, now: int) -> tuple[bool, int, int, str]:
    """The order in which placed workloads were admitted, as far as a snapshot tells: who began later than now, by a
    clock that went back, has just begun."""
    started = workload.started_at
    return (started is None, min(started or 0, now), workload.submitted_at, workload.id)


class Charging:
    """What is left of every team's own part, while reserved work is charged to it one after the other."""

    def __init__(self, picture: Picture, pool: str) -> None:
        self._chain = picture.hierarchy.chain
        self.left = dict(picture.quotas[pool].own)

    def available(self, team: str) -> int:
        """What a team's guarantee and those above it still have for it."""
        return sum(self.left[each] for each in self._chain(team))

    def charge(self, team: str, milli: int) -> Parts:
        """Charge so much: own part first, then each ancestor's; what nobody pays goes to ``None``."""
        parts: Parts = []
        for each in self._chain(team):
            part = min(milli, self.left[each])
            if part > 0:
                self.left[each] -= part
                milli -= part
                parts.append((each, part))
        return [*parts, (None, milli)] if milli > 0 else parts


class Book:
    """What is charged in one pool: before the plan, and after it."""

    def __init__(self, picture: Picture, pool: str) -> None:
        self.picture = picture
        self.pool = pool
        self.fates = picture.in_pool(pool)
        self.quotas = picture.quotas[pool]
        self.charging = Charging(picture, pool)
        self.old: dict[str, Parts] = {}
        placed = [fate.workload for fate in self.fates if fate.workload.status in PLACED]
        for workload in sorted(placed, key=lambda each: admitted(each, picture.now)):
            if workload.reserved:
                milli = sum(pod.milli for pod in workload.placements)
                self.old[workload.id] = self.charging.charge(workload.team, milli)
        self.before = self._subtrees((fate.workload.team, fate.before_milli) for fate in self.fates)
        self.after = self._subtrees((fate.workload.team, fate.after_milli) for fate in self.fates)
        reserved = [fate for fate in self.fates if fate.workload.reserved]
        self.reserved_after = self._subtrees((fate.workload.team, fate.after_milli) for fate in reserved)
        self.lent: Counter[str] = Counter()
        for fate in reserved:
            self.lent.update(self.above(fate.workload.team, _parts(fate)))

    def _subtrees(self, rows: Iterable[tuple[str, int]]) -> Counter[str]:
        found: Counter[str] = Counter()
        for team, milli in rows:
            for each in self.picture.hierarchy.chain(team):
                found[each] += milli
        return found

    def above(self, team: str, parts: Iterable[tuple[str | None, int]]) -> dict[str, int]:
        """For each team from this one upwards what is charged above it."""
        chain = self.picture.hierarchy.chain(team)
        found = dict.fromkeys(chain, 0)
        for payer, milli in parts:
            for lower in chain[: chain.index(payer)] if payer in found else ():
                found[lower] += milli
        return found


def _parts(fate: Fate) -> Parts:
    """Whom the plan charges for a workload."""
    return [(part.team, part.milli) for part in fate.allocation]


def _allocations(book: Book) -> Iterator[Violation]:
    """Allocations add up; reserved work is charged inside guarantees, nearest first, elastic to its own team."""
    charged: Counter[str] = Counter()
    for fate in book.fates:
        if not fate.allocated:
            continue
        workload = fate.workload
        parts = _parts(fate)
        if sum(milli for _, milli in parts) != fate.after_milli or any(milli <= 0 for _, milli in parts):
            text = f"{workload.id} holds {fate.after_milli}, but its allocation says {parts}."
            yield broken(BrokenRule.ALLOCATION, text, workload=workload.id)
        if workload.reserved:
            yield from _charge(book, fate, parts)
        elif any(team not in (None, workload.team) for team, _ in parts):
            text = f"{workload.id} is elastic, but charged to {parts}."
            yield broken(BrokenRule.ALLOCATION, text, workload=workload.id, team=workload.team)
        charged.update({team: milli for team, milli in parts if team is not None})
    for team, milli in charged.items():
        if milli > book.quotas.own.get(team, 0):
            text = f"{milli} are charged to {team}, whose own part is {book.quotas.own.get(team, 0)}."
            yield broken(BrokenRule.BEYOND_GUARANTEE, text, team=team, pool=book.pool)
    yield from _nearest_first(book, charged)


def _charge(book: Book, fate: Fate, parts: Parts) -> Iterator[Violation]:
    """A reserved workload is charged to its team and those above, what starts or grows as a whole."""
    workload, chain = fate.workload, book.picture.hierarchy.chain(fate.workload.team)
    for team in (team for team, _ in parts if team is not None and team not in chain):
        text = f"{workload.id} is charged to {team}, which is not above {workload.team}."
        yield broken(BrokenRule.SIBLINGS_GUARANTEE, text, workload=workload.id, team=team)
    old = book.old.get(workload.id, [])
    uncharged = sum(milli for team, milli in old if team is None)
    if sum(milli for team, milli in parts if team is None) > uncharged:
        text = f"{workload.id} is reserved, but not wholly inside a guarantee: {parts}."
        yield broken(BrokenRule.BEYOND_GUARANTEE, text, workload=workload.id, team=workload.team)
    if fate.action is Action.KEEP and sorted(parts, key=str) != sorted(old, key=str):
        text = f"{workload.id} is charged {parts}; own part first and in the order of admission it is {old}."
        yield broken(BrokenRule.ALLOCATION, text, workload=workload.id)


def _nearest_first(book: Book, charged: Counter[str]) -> Iterator[Violation]:
    """Nobody new is charged further up, or bursts, while something nearer is left."""
    left = {team: own - charged[team] for team, own in book.quotas.own.items()}
    for fate in book.fates:
        workload = fate.workload
        if not fate.allocated:
            continue
        chain = book.picture.hierarchy.chain(workload.team) if workload.reserved else (workload.team,)
        old = dict(book.old.get(workload.id, ()))
        for payer in (part.team for part in fate.allocation if part.milli > old.get(part.team, 0)):
            nearer = chain[: chain.index(payer)] if payer in chain else chain
            spared = [team for team in nearer if left[team] > 0]
            if spared:
                text = (
                    f"{workload.id} is charged to {payer}, while {left[spared[0]]} of {spared[0]} are left."
                )
                yield broken(BrokenRule.ALLOCATION, text, workload=workload.id, team=spared[0])


def _ceilings(book: Book) -> Iterator[Violation]:
    """Who starts or grows leaves every subtree above it at or below its ceiling."""
    raised: dict[str, list[str]] = {}
    bursting: dict[str, list[str]] = {}
    for fate in book.fates:
        workload = fate.workload
        if not fate.new:
            continue
        above = book.above(workload.team, _parts(fate) if workload.reserved else [])
        old = book.above(workload.team, book.old.get(workload.id, ()))
        new_milli = fate.after_milli - fate.before_milli
        for team in above:
            raised.setdefault(team, []).append(workload.id)
            if new_milli - (above[team] - old[team]) > 0:
                bursting.setdefault(team, []).append(workload.id)
    for team, ids in raised.items():
        maximum, used = book.quotas.maximum[team], book.after[team]
        if maximum is not None and used > maximum:
            text = f"{team} has {used} in {book.pool}, its maximum is {maximum}."
            yield broken(BrokenRule.CEILING, text, team=team, pool=book.pool, workload=ids[0])
    for team, ids in bursting.items():
        burst, used = book.quotas.burst[team], book.after[team] - book.lent[team]
        if burst is not None and used > burst:
            text = f"{team} has {used} in {book.pool}, its burst limit allows {burst}."
            yield broken(BrokenRule.CEILING, text, team=team, pool=book.pool, workload=ids[0])
