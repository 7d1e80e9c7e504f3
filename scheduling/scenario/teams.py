"""The tree of teams as a scenario describes it."""

from scheduling.engine import HOUR_MS, PoolInfo, TeamInfo, TeamShare

from .document import ScenarioError, Value
from .fields import Fields, shorten
from .rows import AllNames, KindNames, row_name

MAX_TEAM_GPUS = 1_000_000_000
MAX_WEIGHT = 1_000_000
MAX_PERCENT = 1_000_000
MAX_LEVELS = 1000

TEAM_KEYS = frozenset(
    {"name", "parent", "bursting_priority", "burst_limit", "maximum", "reservations", "maximums", "usage"}
)


def read_teams(rows: tuple[Value, ...], known: AllNames, pools: tuple[PoolInfo, ...]) -> tuple[TeamInfo, ...]:
    """Return the teams of the document's `teams`, a tree; a parent may stand below its children."""
    every_row = []
    for row in rows:
        fields = Fields(row, "a team", TEAM_KEYS)
        known.teams.add(row_name(fields, "team"), fields.line_of("name"))
        every_row.append(fields)
    teams = tuple(_team(fields, known, pools) for fields in every_row)
    _refuse_cycles(teams, every_row)
    _refuse_depth(teams, every_row)
    return teams


def _team(fields: Fields, known: AllNames, pools: tuple[PoolInfo, ...]) -> TeamInfo:
    name = fields.required_text("name")
    parent = fields.text("parent")
    return TeamInfo(
        id=name,
        name=name,
        parent=None if parent is None else known.teams.check(fields, "parent", parent),
        weight=fields.integer("bursting_priority", 1, 0, MAX_WEIGHT),
        burst_limit_percent=fields.optional_integer("burst_limit", 0, MAX_PERCENT),
        shares=_shares(fields, known.pools, pools),
    )


def _shares(fields: Fields, pool_names: KindNames, pools: tuple[PoolInfo, ...]) -> tuple[TeamShare, ...]:
    """What the team has in each pool; its own maximum is spelled out, as `maximums` may lift it."""
    reservations = _by_pool(fields, "reservations", pool_names)
    maximums = _by_pool(fields, "maximums", pool_names)
    usage = _by_pool(fields, "usage", pool_names)
    maximum_milli = _maximum(fields, "maximum")
    shares = []
    for pool in pools:
        own = maximums is not None and maximums.names(pool.id)
        share = TeamShare(
            pool=pool.id,
            reservation_milli=reservations.milli(pool.id, 0, 0, MAX_TEAM_GPUS) if reservations else 0,
            maximum_milli=_maximum(maximums, pool.id) if maximums is not None and own else maximum_milli,
            usage_gpu_ms=usage.milli(pool.id, 0, 0, MAX_TEAM_GPUS) * HOUR_MS // 1000 if usage else 0,
        )
        if share != TeamShare(pool.id):
            shares.append(share)
    return tuple(shares)


def _by_pool(fields: Fields, key: str, pool_names: KindNames) -> Fields | None:
    found = fields.mapping(key)
    if found is not None:
        for pool in found:
            pool_names.check(fields, key, pool, found.key_line(pool))
    return found


def _maximum(fields: Fields, key: str) -> int | None:
    """A number of GPUs in milli-GPUs; null and -1 are unlimited."""
    milli = fields.optional_milli(key, -1, MAX_TEAM_GPUS)
    if milli is not None and -1000 < milli < 0:
        raise fields.refusal(key, "allowed are numbers of GPUs from 0, and null or -1 for unlimited")
    return None if milli is None or milli < 0 else milli


def _refuse_cycles(teams: tuple[TeamInfo, ...], rows: list[Fields]) -> None:
    """Refuse a team that is its own ancestor; walks each branch once."""
    parents = {team.id: team.parent for team in teams}
    lines = {team.id: fields.line_of("parent") for team, fields in zip(teams, rows, strict=True)}
    rooted: set[str] = set()
    for team in teams:
        branch: list[str] = []
        walked: set[str] = set()
        at: str | None = team.id
        while at is not None and at not in rooted:
            if at in walked:
                path = " > ".join([*branch[branch.index(at) :], at])
                raise ScenarioError(
                    f"team {shorten(at)}: parent is {shorten(parents[at] or '')}, its own descendant "
                    f"({path}); allowed is a tree",
                    lines[at],
                )
            branch.append(at)
            walked.add(at)
            at = parents[at]
        rooted |= walked


def _refuse_depth(teams: tuple[TeamInfo, ...], rows: list[Fields]) -> None:
    """Refuse a tree, known to be one, that is deeper than anybody needs."""
    parents = {team.id: team.parent for team in teams}
    depths: dict[str, int] = {}
    for team, fields in zip(teams, rows, strict=True):
        branch: list[str] = []
        at: str | None = team.id
        while at is not None and at not in depths:
            branch.append(at)
            at = parents[at]
        depth = 0 if at is None else depths[at]
        for id_ in reversed(branch):
            depth += 1
            depths[id_] = depth
        if depths[team.id] > MAX_LEVELS:
            raise fields.refusal(
                "parent", f"that is level {depths[team.id]:,} of the tree: allowed are {MAX_LEVELS:,}"
            )
