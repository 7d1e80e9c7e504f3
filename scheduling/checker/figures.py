"""The plan's figures and findings beside what the rows add up to (sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.checker.picture import Picture
from scheduling.checker.quota import Book
from scheduling.checker.room import Rooms
from scheduling.checker.shares import capacity_of
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import FindingCode
from scheduling.engine.model.snapshot import OpenStatus

Numbers = dict[str, int | bool | None]


def broken_figures(picture: Picture, books: dict[str, Book]) -> Iterator[Violation]:
    """Figures that are not what the rows say, and findings that are missing or untrue."""
    pools = {row.pool: row for row in picture.plan.pools}
    teams = {(row.team, row.pool): row for row in picture.plan.teams}
    for pool, book in books.items():
        row = pools.get(pool)
        expected = _of_pool(picture, book)
        said = {name: getattr(row, name, None) for name in expected}
        if said != expected or not 0 <= getattr(row, "fragmentation", 0) <= 1:
            yield broken(BrokenRule.FIGURES, f"{pool} has {expected}, but the plan says {said}.", pool=pool)
        for team in picture.hierarchy.teams:
            expected = _of_team(book, team)
            said = {name: getattr(teams.get((team, pool)), name, None) for name in expected}
            if said != expected:
                text = f"{team} has {expected} in {pool}, but the plan says {said}."
                yield broken(BrokenRule.FIGURES, text, team=team, pool=pool)
        yield from _findings(picture, book)


def _of_pool(picture: Picture, book: Book) -> Numbers:
    nodes = [node for node in picture.nodes.values() if node.pool == book.pool]
    rooms = Rooms(nodes)
    for fate in book.fates:
        exists = fate.workload.status is not OpenStatus.QUEUED
        rooms.take(fate.workload, (*fate.kept, *fate.new, *(fate.lost if exists else ())))
    for workload in picture.guests(book.pool):
        rooms.take(workload, workload.placements)
    capacity = capacity_of(picture, book.pool)
    return {
        "capacity_milli": capacity,
        "in_use_milli": sum(fate.after_milli for fate in book.fates),
        "free_milli": sum(
            max(0, left)
            for node in nodes
            if node.ready and not node.cordoned
            for left in rooms.rooms[node.id].devices.values()
        ),
        "oversubscribed": _guaranteed(picture, book) > capacity,
    }


def _guaranteed(picture: Picture, book: Book) -> int:
    return sum(book.quotas.guarantee[team] for team in picture.hierarchy.children[None])


def _of_team(book: Book, team: str) -> Numbers:
    return {
        "guarantee_milli": book.quotas.guarantee[team],
        "ceiling_milli": book.quotas.ceiling(team),
        "in_use_milli": book.after[team],
        "reserved_in_use_milli": book.reserved_after[team],
    }


def _findings(picture: Picture, book: Book) -> Iterator[Violation]:
    """What must be found is, and nothing else of these kinds."""
    expected: set[tuple[FindingCode, str | None]] = set()
    if _guaranteed(picture, book) > capacity_of(picture, book.pool):
        expected.add((FindingCode.OVERSUBSCRIBED, None))
    for team in picture.hierarchy.teams:
        maximum, burst, used = book.quotas.maximum[team], book.quotas.burst[team], book.after[team]
        over_burst = burst is not None and used - book.lent[team] > burst
        if over_burst or (maximum is not None and used > maximum):
            expected.add((FindingCode.ABOVE_CEILING, team))
    judged = (FindingCode.OVERSUBSCRIBED, FindingCode.ABOVE_CEILING)
    said = {
        (row.code, row.team) for row in picture.plan.findings if row.pool == book.pool and row.code in judged
    }
    for code, whose in sorted(expected ^ said, key=str):
        text = f"{code} of {whose or book.pool} is {'missing' if (code, whose) in expected else 'untrue'}."
        yield broken(BrokenRule.FINDINGS, text, pool=book.pool, team=whose or "(all)")
