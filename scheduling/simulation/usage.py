"""Decayed use as the clock runs, for pools whose fairness is by usage.

What a team holds adds to its use all the time, and all of it halves every half-life: with `h` GPUs held for `t`, use
becomes ``u x 0.5^(t / half life) + h x half life / ln 2 x (1 - 0.5^(t / half life))``.
"""

from dataclasses import dataclass, replace
from math import log

from scheduling.engine import GPU_MILLI, Fairness, Snapshot, TeamInfo, TeamShare

LN_2 = log(2)


@dataclass(slots=True)
class Meter:
    """The use of one team in one pool, as of `at`, and what it holds since."""

    half_life_ms: int
    at: int
    used_gpu_ms: float = 0.0
    held_milli: int = 0

    def read(self, at: int) -> float:
        """Let time pass, and return the use."""
        if at != self.at:
            kept = 0.5 ** ((at - self.at) / self.half_life_ms)
            gained = self.held_milli / GPU_MILLI * self.half_life_ms / LN_2 * (1 - kept)
            self.used_gpu_ms = self.used_gpu_ms * kept + gained
            self.at = at
        return self.used_gpu_ms


class TeamUsage:
    """What each team's own workloads have used in each pool that asks for it."""

    def __init__(self, snapshot: Snapshot, at: int) -> None:
        self._teams = snapshot.teams
        self._meters = {
            pool.id: {team.id: Meter(pool.policy.usage_half_life_ms, at) for team in snapshot.teams}
            for pool in snapshot.pools
            if pool.policy.fairness is Fairness.USAGE
        }
        for team in snapshot.teams:
            for share in team.shares:
                if share.pool in self._meters:
                    self._meters[share.pool][team.id].used_gpu_ms = share.usage_gpu_ms

    def counts(self, pool: str) -> bool:
        """Whether the pool's fairness goes by usage."""
        return pool in self._meters

    def hold(self, team: str, pool: str, milli: int, at: int) -> None:
        """Count so much more (or, below zero, less) as held by a team from now on."""
        if pool in self._meters:
            meter = self._meters[pool][team]
            meter.read(at)
            meter.held_milli += milli

    def teams(self, at: int) -> tuple[TeamInfo, ...]:
        """Return the teams with their use as of now."""
        return tuple(self._with_use(team, at) for team in self._teams) if self._meters else self._teams

    def _with_use(self, team: TeamInfo, at: int) -> TeamInfo:
        shares = {share.pool: share for share in team.shares}
        for pool, meters in self._meters.items():
            used = round(meters[team.id].read(at))
            if used or pool in shares:
                shares[pool] = replace(shares.get(pool, TeamShare(pool)), usage_gpu_ms=used)
        return replace(team, shares=tuple(shares.values()))
