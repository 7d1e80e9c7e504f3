"""The `expect` of a scenario: what `--check` will look for, with the lines it stands in."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from scheduling.engine import ReasonCode

from .document import Scalar, ScenarioError, Value
from .fields import Fields, shorten
from .rows import MAX_COUNT, AllNames, KindNames

MAX_COMPARISONS = 100_000_000
ACTIONS = ("start", "keep", "grow", "shrink", "preempt", "wait", "end")
COUNT_KEYS = {
    "kept": ("keep", "grow", "shrink"),
    "preempted": ("preempt",),
    "started": ("start",),
    "waiting": ("wait",),
}
"""What a pattern may count, and the actions that count as it."""

WORKLOAD_KEYS = frozenset(
    {
        "action",
        "allocation",
        "eta",
        "nodes",
        "pods",
        "pool",
        "position",
        "preempted_by",
        "preempts",
        "reason",
        "status",
    }
)
TEAM_KEYS = frozenset({"guarantee", "ceiling", "in_use", "reserved_in_use", "demand", "entitlement"})
POOL_KEYS = frozenset({"capacity", "in_use", "free", "oversubscribed", "fragmentation"})


@dataclass(frozen=True, slots=True)
class WorkloadExpectation:
    """What is expected of one workload, or of all that a shell pattern matches.

    `counts` are how many of them end up so; `values` are output keys that each of them must have.
    """

    line: int
    pattern: str
    workloads: tuple[str, ...]
    counts: tuple[tuple[str, int], ...]
    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class FigureExpectation:
    """What is expected of a pool, or of a team in a pool (`team` is None for a pool)."""

    line: int
    team: str | None
    pool: str
    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Expectations:
    """All that a scenario expects; empty where it expects nothing."""

    workloads: tuple[WorkloadExpectation, ...] = ()
    figures: tuple[FigureExpectation, ...] = ()


def read_expectations(value: Value | None, known: AllNames) -> Expectations:
    """Return the document's `expect`; every name and key it uses is known."""
    if value is None:
        return Expectations()
    expect = Fields(value, "expect", {"workloads", "teams", "pools"})
    workloads: list[WorkloadExpectation] = []
    figures: list[FigureExpectation] = []
    if (fields := expect.mapping("workloads")) is not None:
        _refuse_too_many_patterns(fields, known.workloads)
        workloads = [_workload(fields, pattern, known.workloads) for pattern in fields]
    if (fields := expect.mapping("teams")) is not None:
        for team in fields:
            known.teams.check(fields, "", team, fields.key_line(team))
            if (pools := fields.mapping(team)) is not None:
                figures.extend(_figures(pools, known.pools, TEAM_KEYS, team))
    if (fields := expect.mapping("pools")) is not None:
        figures.extend(_figures(fields, known.pools, POOL_KEYS, None))
    return Expectations(tuple(workloads), tuple(figures))


def _refuse_too_many_patterns(fields: Fields, names: KindNames) -> None:
    """Refuse what would take hours to compare: every pattern is matched with every name."""
    patterns = sum(pattern not in names for pattern in fields)
    if patterns * len(names) > MAX_COMPARISONS:
        raise ScenarioError(
            f"{fields.what} has {patterns:,} patterns for {len(names):,} workloads; "
            f"allowed are {MAX_COMPARISONS:,} comparisons of the two",
            fields.line,
        )


def _workload(fields: Fields, pattern: str, names: KindNames) -> WorkloadExpectation:
    wanted = fields.mapping(pattern, WORKLOAD_KEYS | COUNT_KEYS.keys())
    line = fields.key_line(pattern)
    workloads = (
        (pattern,) if pattern in names else tuple(name for name in names if fnmatchcase(name, pattern))
    )
    if not workloads:
        raise ScenarioError(
            f"{fields.what} names {shorten(pattern)}; allowed are workloads and patterns of some",
            line,
        )
    if wanted is None:
        return WorkloadExpectation(line, pattern, workloads, (), ())
    for key, choices in (("action", ACTIONS), ("reason", tuple(ReasonCode))):
        value = wanted.value(key)
        if isinstance(value, Scalar) and value.text not in choices:
            raise wanted.refusal(key, f"allowed are {', '.join(choices)}")
    counts = tuple((key, wanted.integer(key, 0, 0, MAX_COUNT)) for key in COUNT_KEYS if wanted.has(key))
    return WorkloadExpectation(line, pattern, workloads, counts, wanted.items_of(WORKLOAD_KEYS))


def _figures(
    fields: Fields, pool_names: KindNames, keys: frozenset[str], team: str | None
) -> Iterator[FigureExpectation]:
    for pool in fields:
        line = fields.key_line(pool)
        pool_names.check(fields, "", pool, line)
        wanted = fields.mapping(pool, keys)
        yield FigureExpectation(line, team, pool, () if wanted is None else wanted.items_of(keys))
