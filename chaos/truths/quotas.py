"""Guarantees worked out anew from teams and shares, by the definitions of the design."""

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from chaos.truths.tables import StoredTables


class StoredQuotas:
    """Guarantees and own parts by pool and team, in milli-GPUs; archived teams have none."""

    def __init__(self, tables: StoredTables) -> None:
        self._team = tables.team
        self._children: dict[UUID, list[UUID]] = defaultdict(list)
        for team in tables.teams:
            if team.parent_id is not None and team.archived_at is None:
                self._children[team.parent_id].append(team.id)
        self._shares = {(share.pool_id, share.team_id): share for share in tables.shares}

    def guarantee(self, pool_id: UUID, team_id: UUID) -> int:
        """Return the larger of the team's reservation and what its children are guaranteed."""
        share = self._shares.get((pool_id, team_id))
        below = sum(self.guarantee(pool_id, child) for child in self._children[team_id])
        return max(share.reservation_milli if share else 0, below)

    def own_part(self, pool_id: UUID, team_id: UUID) -> int:
        """Return what of the guarantee no child has."""
        below = sum(self.guarantee(pool_id, child) for child in self._children[team_id])
        return self.guarantee(pool_id, team_id) - below

    def line(self, team_id: UUID) -> Iterator[UUID]:
        """Yield the team and those above it, nearest first."""
        above: UUID | None = team_id
        while above is not None:
            yield above
            above = self._team[above].parent_id

    def is_limited(self, pool_id: UUID, team_id: UUID) -> bool:
        """Return whether any ceiling stands over the team."""
        for above in self.line(team_id):
            team, share = self._team[above], self._shares.get((pool_id, above))
            if team.maximum_milli is not None or team.burst_limit_percent is not None:
                return True
            if share is not None and share.maximum_milli is not None:
                return True
        return False
