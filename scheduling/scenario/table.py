"""The plan as a table for people: plain aligned columns, lines cut at the width of the screen."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from scheduling.engine import Plan, Snapshot, TeamFigures, TeamInfo
from scheduling.engine.model.quantities import in_gpus

from .output import PlannedOutcome, eta_times, gpus_by_node, outcomes, time_text

GAP = "  "
ELLIPSIS = "…"
ACTION = "ACTION"
MAX_NODES_SHOWN = 3
COLOURS = {"start": "32", "grow": "32", "shrink": "33", "preempt": "31", "wait": "33", "end": "31"}
"""The ANSI colours of actions; what stays as it is has none."""

POOL_HEADS = ("POOL", "CAPACITY", "IN USE", "FREE", "FRAGMENTATION", "")
TEAM_HEADS = ("TEAM", "POOL", "GUARANTEE", "CEILING", "IN USE", "RESERVED", "DEMAND", "ENTITLEMENT")
WORKLOAD_HEADS = ("WORKLOAD", "TEAM", "ACTION", "STATUS", "GPUS", "POOL", "NODES", "WHY")
RIGHT_ALIGNED = frozenset(
    {
        "CAPACITY",
        "IN USE",
        "FREE",
        "FRAGMENTATION",
        "GUARANTEE",
        "CEILING",
        "RESERVED",
        "DEMAND",
        "ENTITLEMENT",
        "GPUS",
        "SUBMITTED",
        "STARTED",
        "FINISHED",
        "UTILISATION",
        "MEAN WAIT",
        "P95 WAIT",
        "PREEMPTIONS",
        "LOST GPU-HOURS",
    }
)


Section = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""A table: its heads and its rows."""


def as_table(
    snapshot: Snapshot,
    now: int,
    plan: Plan,
    *,
    width: int | None,
    colour: bool,
    more: Iterable[Section] = (),
) -> str:
    """Return the text of the three tables and of those that come with them; a `width` of None cuts nothing."""
    sections = (
        (POOL_HEADS, list(_pool_rows(plan))),
        (TEAM_HEADS, list(_team_rows(snapshot, plan))),
        (WORKLOAD_HEADS, [_workload_row(outcome) for outcome in outcomes(snapshot, plan)]),
        *more,
    )
    lines = [f"Plan of {time_text(now)}"]
    for heads, rows in sections:
        if rows:
            lines += ["", *_aligned(heads, rows, width, colour)]
    return "\n".join(lines) + "\n"


def _pool_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    for pool in sorted(plan.pools, key=lambda figures: figures.pool):
        yield (
            pool.pool,
            in_gpus(pool.capacity_milli),
            in_gpus(pool.in_use_milli),
            in_gpus(pool.free_milli),
            f"{pool.fragmentation:.1%}",
            "oversubscribed" if pool.oversubscribed else "",
        )


def _team_rows(snapshot: Snapshot, plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield the tree, children below their parent and indented."""
    by_team: dict[str, list[TeamFigures]] = defaultdict(list)
    for figures in sorted(plan.teams, key=lambda figures: figures.pool):
        by_team[figures.team].append(figures)
    for team, depth in _with_depths(snapshot.teams):
        for figures in by_team[team]:
            yield (
                "  " * depth + team,
                figures.pool,
                in_gpus(figures.guarantee_milli),
                "none" if figures.ceiling_milli is None else in_gpus(figures.ceiling_milli),
                in_gpus(figures.in_use_milli),
                in_gpus(figures.reserved_in_use_milli),
                in_gpus(figures.demand_milli),
                in_gpus(figures.entitlement_milli),
            )


def _with_depths(teams: Sequence[TeamInfo]) -> Iterator[tuple[str, int]]:
    below: dict[str | None, list[str]] = defaultdict(list)
    for team in sorted(teams, key=lambda team: team.id, reverse=True):
        below[team.parent].append(team.id)
    waiting = [(team, 0) for team in below[None]]
    while waiting:
        team_id, depth = waiting.pop()
        yield team_id, depth
        waiting.extend((child, depth + 1) for child in below[team_id])


def _workload_row(outcome: PlannedOutcome) -> tuple[str, ...]:
    waits = outcome.wait is not None
    return (
        outcome.workload.id,
        outcome.workload.team,
        outcome.action,
        outcome.status,
        in_gpus(outcome.gpus_milli) if outcome.placements else "",
        outcome.pool or "",
        "" if waits else _nodes(outcome),
        _why(outcome),
    )


def _nodes(outcome: PlannedOutcome) -> str:
    names = sorted(gpus_by_node(outcome.placements))
    more = f" and {len(names) - MAX_NODES_SHOWN} more" if len(names) > MAX_NODES_SHOWN else ""
    return ", ".join(names[:MAX_NODES_SHOWN]) + more


def _why(outcome: PlannedOutcome) -> str:
    """The place in the queue, whom it preempts, and the reason's sentence."""
    parts = []
    if outcome.wait is not None:
        if outcome.wait.position is not None:
            parts.append(f"number {outcome.wait.position} in the queue.")
        if times := eta_times(outcome.wait.eta):
            parts.append(f"Starts {' to '.join(times)}.")
    if outcome.preempts:
        parts.append(f"Preempts {', '.join(outcome.preempts)}.")
    if outcome.reason is not None:
        parts.append(outcome.reason.message)
    text = " ".join(parts)
    return text[:1].upper() + text[1:]


# --- Text ---


def _aligned(
    heads: tuple[str, ...], rows: list[tuple[str, ...]], width: int | None, colour: bool
) -> Iterator[str]:
    widths = [max(_cells(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    action = heads.index(ACTION) if ACTION in heads else None
    yield _clip(_joined(heads, heads, widths), width)
    for row in rows:
        line = _clip(_joined(heads, row, widths), width)
        code = COLOURS.get(row[action]) if colour and action is not None else None
        if code is None or action is None:
            yield line
            continue
        before = len(_joined(heads[:action], row[:action], widths, keep_end=True)) + len(GAP)
        after = before + len(row[action])
        yield f"{line[:before]}\x1b[{code}m{line[before:after]}\x1b[0m{line[after:]}"


def _joined(heads: tuple[str, ...], row: tuple[str, ...], widths: list[int], keep_end: bool = False) -> str:
    cells = []
    for head, cell, cell_width in zip(heads, row, widths, strict=False):
        padding = " " * (cell_width - _cells(cell))
        cells.append(padding + cell if head in RIGHT_ALIGNED else cell + padding)
    line = GAP.join(cells)
    return line if keep_end else line.rstrip()


def _cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _clip(line: str, width: int | None) -> str:
    if width is None or _cells(line) <= width:
        return line
    taken = 0
    for index, character in enumerate(line):
        taken += _cell(character)
        if taken > width - 1:
            return line[:index] + ELLIPSIS
    return line
