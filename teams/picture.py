"""The tree with what every team was given, before and after an edit, and what may not become worse by it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from django.db.models import QuerySet

from teams.models import Pool, Team
from teams.tree import Entitlements, Quota, TeamTree, TreeNode, moved, quotas_of
from teams.values import ShareChanges, TeamChanges, gpus


def lock_tree() -> None:
    """Keep others from changing the tree until the transaction ends, by the row of the root.

    Rows that only point to teams (workloads, members) are not held up. It comes before all other locks (ADR 5).
    """
    list(Team.objects.select_for_update(no_key=True).filter(depth=0).values_list("pk"))


def lock_teams(rows: QuerySet[Team]) -> None:
    """Wait for submissions to these teams that are under way, and have later ones wait until the transaction ends.

    Whoever archives them, moves them or gives them another slug calls it, with the tree locked.
    """
    list(rows.select_for_update().order_by("pk").values_list("pk"))


@dataclass(frozen=True)
class TreePicture:
    """All teams that are not archived and their quotas by pool and team. Edits give a new picture."""

    nodes: Mapping[UUID, TreeNode]
    quotas: Mapping[UUID, Mapping[UUID, Quota]]
    pools: Mapping[UUID, Pool]

    @classmethod
    def load(cls) -> "TreePicture":
        """Read everything (three queries)."""
        return cls(
            nodes=TeamTree.load().nodes,
            quotas=quotas_of(),
            pools={pool.pk: pool for pool in Pool.objects.all()},
        )

    @classmethod
    def locked(cls) -> "TreePicture":
        """Read everything, and keep it so until the transaction ends: edits come one after another."""
        lock_tree()
        return cls.load()

    @cached_property
    def entitled(self) -> dict[UUID, Entitlements]:
        """What each team may have, by pool and team."""
        return {pool_id: Entitlements(self.nodes, self.quotas.get(pool_id, {})) for pool_id in self.pools}

    def quota(self, pool_id: UUID, team_id: UUID) -> Quota:
        """Return what the team was given of the pool."""
        return self.quotas.get(pool_id, {}).get(team_id, Quota())

    def with_team(self, team_id: UUID, changes: TeamChanges) -> "TreePicture":
        """Return the picture with other limits of a team."""
        node = self.nodes[team_id]
        changed = node._replace(
            name=changes.get("name", node.name),
            burst_limit_percent=changes.get("burst_limit_percent", node.burst_limit_percent),
            maximum_milli=changes.get("maximum_milli", node.maximum_milli),
        )
        return replace(self, nodes={**self.nodes, team_id: changed})

    def with_share(self, pool_id: UUID, team_id: UUID, changes: ShareChanges) -> "TreePicture":
        """Return the picture with another share of a team."""
        quota = self.quota(pool_id, team_id)
        changed = replace(
            quota,
            reservation_milli=changes.get("reservation_milli", quota.reservation_milli),
            maximum_milli=changes.get("maximum_milli", quota.maximum_milli),
        )
        return replace(
            self, quotas={**self.quotas, pool_id: {**self.quotas.get(pool_id, {}), team_id: changed}}
        )

    def with_parent(self, team_id: UUID, parent_id: UUID) -> "TreePicture":
        """Return the picture with the team below another parent."""
        return replace(self, nodes={node.id: node for node in moved(self.nodes, team_id, parent_id)})

    def with_teams(self, teams: Iterable[Team]) -> "TreePicture":
        """Return the picture with more teams, which come by depth."""
        return replace(self, nodes={**self.nodes, **TeamTree.of(map(TreeNode.of, teams)).nodes})


@dataclass(frozen=True, slots=True)
class Excess:
    """A sentence about a pool and a team whose numbers an edit would make worse."""

    pool_id: UUID
    team_id: UUID
    sentence: str


def envelopes_exceeded(before: TreePicture, after: TreePicture) -> list[Excess]:
    """Return where children's guarantees would exceed the parent's reservation by more than before.

    A parent without a reservation has no envelope. What was exceeded already (a team was moved in by an older
    rule, an import) may stay or shrink: no edit is refused for what it did not do.
    """
    found = []
    for pool_id, teams in after.entitled.items():
        for team_id, now in teams.items():
            # Of a pool that is new, nobody was guaranteed anything.
            old = before.entitled[pool_id].get(team_id) if pool_id in before.entitled else None
            if now.excess_milli > (old.excess_milli if old else 0):
                pool, name = after.pools[pool_id].name, after.nodes[team_id].name
                sentence = (
                    f"{name} has a reservation of {gpus(now.reservation_milli)} in {pool}, and the teams "
                    f"below it would be guaranteed {gpus(now.children_milli)}: "
                    f"{gpus(now.excess_milli)} too many. "
                    f"Raise {name}'s reservation first, or lower another team's."
                )
                found.append(Excess(pool_id, team_id, sentence))
    return found


def guarantees_raised(before: TreePicture, after: TreePicture, team_id: UUID) -> list[Excess]:
    """Return the pools in which the team would be guaranteed more than before."""
    found = []
    for pool_id, teams in after.entitled.items():
        old = before.entitled[pool_id][team_id].guarantee_milli if pool_id in before.entitled else 0
        new = teams[team_id].guarantee_milli
        if new > old:
            pool, name = after.pools[pool_id].name, after.nodes[team_id].name
            sentence = (
                f"{name} is guaranteed {gpus(old)} of {pool}, and this would make it {gpus(new)}. "
                f"Divide what it has, or ask an admin above {name} for more."
            )
            found.append(Excess(pool_id, team_id, sentence))
    return found
