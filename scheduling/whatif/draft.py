"""What is tried on a copy of the present: edits in the engine's terms."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduling import engine
from scheduling.reading import translate
from scheduling.whatif.draining import Draining
from teams.actions import PoolChanges, TeamEdit
from teams.models import FairnessPolicy, Pool, PoolPolicy

LIMITS = {
    "bursting_priority": "weight",
    "burst_limit_percent": "burst_limit_percent",
    "maximum_milli": "maximum_milli",
}
"""What of a team the scheduler goes by, and what the engine calls it."""
NODES_MOVE = frozenset({"node_selector", "clusters", "order"})

Values = Mapping[str, Any]
"""Fields of one of the engine's types that get other values."""


@dataclass(frozen=True, slots=True)
class TeamDraft:
    """Other limits of a team, and other shares by pool."""

    limits: Values = field(default_factory=dict)
    shares: Mapping[str, Values] = field(default_factory=dict)

    def on(self, team: engine.TeamInfo) -> engine.TeamInfo:
        """Return the team as it would be."""
        shares = {share.pool: share for share in team.shares}
        for pool, values in self.shares.items():
            shares[pool] = replace(shares.get(pool, engine.TeamShare(pool)), **values)
        return replace(team, **self.limits, shares=tuple(share for _, share in sorted(shares.items())))


@dataclass(frozen=True, slots=True)
class DraftEdits:
    """Edits by the ids of teams, pools and nodes; workloads that nobody submitted yet. Who is `drained` is cordoned,
    too.

    `usage` is the decayed use of teams in pools that would begin to go by it. `notes` say what of the edits has an
    effect that is not worked out.
    """

    teams: Mapping[str, TeamDraft] = field(default_factory=dict)
    pools: Mapping[str, Values] = field(default_factory=dict)
    cordoned: Mapping[str, bool] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    newcomers: tuple[engine.WorkloadInfo, ...] = ()
    more_nodes: tuple[engine.NodeInfo, ...] = ()
    usage: Mapping[tuple[str, str], int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        nodes = self.cordoned or self.drained or self.more_nodes
        return bool(self.teams or self.pools or nodes or self.newcomers)

    def on(self, snapshot: engine.Snapshot) -> engine.Snapshot:
        """Return the snapshot as it would be. What a draft does not name is the very object of before."""
        drafts = self._teams()
        return engine.Snapshot(
            pools=tuple(self._pool(pool) for pool in snapshot.pools),
            teams=tuple(_team(team, drafts.get(team.id)) for team in snapshot.teams),
            nodes=(*(self._node(node) for node in snapshot.nodes), *self.more_nodes),
            workloads=(*self.draining(snapshot).on(snapshot.workloads), *self.newcomers),
        )

    def draining(self, snapshot: engine.Snapshot) -> Draining:
        """Return what becomes of those who lie on nodes that are drained."""
        return Draining.of(snapshot, self.drained)

    def _pool(self, pool: engine.PoolInfo) -> engine.PoolInfo:
        return replace(pool, **self.pools[pool.id]) if pool.id in self.pools else pool

    def _teams(self) -> dict[str, TeamDraft]:
        """Return what is drafted of teams, the use that would count of them included."""
        found = dict(self.teams)
        for (team, pool), used in self.usage.items():
            drafted = found.get(team, TeamDraft())
            share = {**drafted.shares.get(pool, {}), "usage_gpu_ms": used}
            found[team] = replace(drafted, shares={**drafted.shares, pool: share})
        return found

    def _node(self, node: engine.NodeInfo) -> engine.NodeInfo:
        cordoned = node.id in self.drained or self.cordoned.get(node.id, node.cordoned)
        return node if cordoned == node.cordoned else replace(node, cordoned=cordoned)


def _team(team: engine.TeamInfo, draft: TeamDraft | None) -> engine.TeamInfo:
    return team if draft is None else draft.on(team)


def of_teams(edits: Iterable[TeamEdit]) -> dict[str, TeamDraft]:
    """Return what edits of teams mean; those of names alone mean nothing."""
    found = {}
    for edit in edits:
        limits = {LIMITS[key]: value for key, value in edit.changes.items() if key in LIMITS}
        shares = {str(share.pool.pk): dict(share.changes) for share in edit.shares}
        if limits or shares:
            found[str(edit.team.pk)] = TeamDraft(limits, shares)
    return found


def of_pool(changes: PoolChanges) -> dict[str, Any]:
    """Return what changes of a pool mean; those of its names mean nothing."""
    found: dict[str, Any] = {}
    if "policy" in changes:
        found["policy"] = translate.policy(PoolPolicy.model_validate(changes["policy"]))
    if "topology" in changes:
        found["topology"] = tuple(changes["topology"])
    if "paused" in changes:
        found["paused"] = changes["paused"]
    return found


def notes_on(pool: Pool, changes: PoolChanges) -> list[str]:
    """Return what of a pool's changes has an effect that is not worked out, as sentences."""
    found = []
    if NODES_MOVE & changes.keys():
        found.append(
            f"Which nodes {pool.name} picks would change, too; the effect shown is with the nodes that it has now."
        )
    if "policy" in changes and _weighs_use_otherwise(
        pool.rules, PoolPolicy.model_validate(changes["policy"])
    ):
        found.append(
            "Use is reckoned with the half life of before; another one shows from the next cycle on."
        )
    return found


def _weighs_use_otherwise(old: PoolPolicy, new: PoolPolicy) -> bool:
    """Whether a pool goes by use before and after, with another half life."""
    same = old.usage_half_life_seconds == new.usage_half_life_seconds
    return not same and old.fairness is new.fairness is FairnessPolicy.USAGE
