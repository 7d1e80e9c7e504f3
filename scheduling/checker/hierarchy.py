"""The tree of teams and what its teams may have, read straight off the rows (section 2)."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.model.snapshot import TeamInfo


class Hierarchy:
    """Who is whose parent. A team whose parent is not among the rows is a top team; ``None`` stands for the root."""

    def __init__(self, teams: Iterable[TeamInfo]) -> None:
        self.teams = {team.id: team for team in sorted(teams, key=lambda team: team.id)}
        self.children: dict[str | None, list[str]] = {None: []}
        for team in self.teams.values():
            self.children.setdefault(team.id, [])
            self.children.setdefault(self.parent(team.id), []).append(team.id)
        self.top_down: list[str] = []
        waiting: list[str | None] = [None]
        for parent in waiting:
            waiting.extend(self.children[parent])
            self.top_down.extend(self.children[parent])
        self._chains: dict[str, tuple[str, ...]] = {}
        for team_id in self.top_down:
            above = self.parent(team_id)
            self._chains[team_id] = (team_id, *(self._chains[above] if above is not None else ()))

    def parent(self, team: str) -> str | None:
        """The team above, ``None`` for a top team."""
        parent = self.teams[team].parent
        return parent if parent in self.teams else None

    def chain(self, team: str) -> tuple[str, ...]:
        """The team and those above it, upwards."""
        return self._chains[team]

    def meeting(self, team: str, other: str) -> str | None:
        """The lowest team that both belong to (one of them, if it is above the other); ``None`` for the root."""
        theirs = set(self.chain(other))
        return next((each for each in self.chain(team) if each in theirs), None)

    def line(self, team: str) -> tuple[str, ...]:
        """The branches from a top team down to the one that holds the team's own workloads.

        A team with children has a branch of its own below it, named ``"=id"``: its own workloads are one more child.
        """
        down = tuple(reversed(self.chain(team)))
        return (*down, own_branch(team)) if self.children[team] else down


def own_branch(team: str) -> str:
    """The name of the branch for the workloads submitted straight to a team with children."""
    return f"={team}"


class Quotas:
    """What every team may have in one pool, in milli-GPUs; ``None`` is no limit."""

    def __init__(self, hierarchy: Hierarchy, pool: str) -> None:
        self.guarantee: dict[str, int] = {}
        self.own: dict[str, int] = {}
        self.maximum: dict[str, int | None] = {}
        self.burst: dict[str, int | None] = {}
        for team_id in reversed(hierarchy.top_down):
            team = hierarchy.teams[team_id]
            share = next((share for share in team.shares if share.pool == pool), None)
            reservation = share.reservation_milli if share else 0
            below = sum(self.guarantee[child] for child in hierarchy.children[team_id])
            self.guarantee[team_id] = max(reservation, below)
            self.own[team_id] = self.guarantee[team_id] - below
            maximum = share.maximum_milli if share else None
            maximum = team.maximum_milli if maximum is None else maximum
            self.maximum[team_id] = None if maximum is None or maximum < 0 else maximum
            percent = team.burst_limit_percent
            limit = None if percent is None else self.guarantee[team_id] * (100 + percent) // 100
            self.burst[team_id] = limit

    def ceiling(self, team: str) -> int | None:
        """``L = min(M, G x (1 + b/100))``."""
        limits = [limit for limit in (self.maximum[team], self.burst[team]) if limit is not None]
        return min(limits, default=None)
