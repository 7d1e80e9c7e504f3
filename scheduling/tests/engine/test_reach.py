"""What is kept of whom newcomers could take says no only where a look from nothing says no."""

from __future__ import annotations

from itertools import product
from random import Random

from scheduling.acceleration.infeasible_searches import InfeasibleSearches
from scheduling.acceleration.kept_pool import KeptPool
from scheduling.acceleration.kept_state import KeptState
from scheduling.engine import GPU_MILLI, ElasticPreemption, Snapshot, State, decide
from scheduling.engine.preemption.policy import WorkloadClaim
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.tests.engine.build import NOW, node, placed, pool, team, waiting

NODES = 6
KINDS = ((0.5, 1), (1, 1), (2, 1), (1, 3))
"""GPUs of a pod (two: all of a node), and pods."""
TEAMS = [
    team("a", reserved=4),
    team("b", reserved=3),
    team("a1", "a", reserved=2),
    team("a2", "a"),
    team("a11", "a1"),
    team("a12", "a1", reserved=1),
    team("b1", "b"),
    team("b2", "b", reserved=1),
]


def full_books(chance: Random, mode: ElasticPreemption, sharing: int = 1) -> KeptPool:
    """Those of a pool that is full, after a decision; so many share each device."""
    nodes = [node(f"n{number}", 2) for number in range(NODES)]
    rows = [
        placed(
            f"w{number}",
            chance.choice(TEAMS).id,
            1 / sharing,
            on=f"n{number // sharing // 2}:{number // sharing % 2}",
            priority=chance.choice((10, 50, 50, 60)),
        )
        for number in range(2 * NODES * sharing)
    ]
    pools = (pool(elastic_preemption=mode),)
    state = State.of(Snapshot(pools, tuple(TEAMS), tuple(nodes), tuple(rows)))
    decide(state, NOW)
    (kept_pool,) = KeptState.of(state).pools.values()
    return kept_pool


class Moves:
    """Things that happen to books between two looks."""

    def __init__(self, kept_pool: KeptPool, chance: Random) -> None:
        self.kept_pool = kept_pool
        self.chance = chance
        self.eligible = kept_pool.context(reserved=False).eligible
        self.away: list[PlacedWorkload] = []
        self.taken: list[tuple[int, int]] = []
        self.leaves = list(kept_pool.tree.leaf_of.values())

    def leave(self) -> None:
        """A victim goes, as one does in a cycle."""
        here = list(self.eligible)
        if here:
            placed = self.chance.choice(here)
            self.eligible.drop(placed)
            self.kept_pool.ledger.remove(placed.workload)
            self.away.append(placed)
            self.kept_pool.accounts.usage.add(placed.leaf, -placed.milli, reserved=False)

    def come_back(self) -> None:
        """One who went stands there again."""
        if self.away:
            placed = self.away.pop(self.chance.randrange(len(self.away)))
            self.kept_pool.ledger.add(placed.workload)
            self.eligible.add(placed)
            self.kept_pool.accounts.usage.add(placed.leaf, placed.milli, reserved=False)

    def take(self) -> None:
        """Somebody starts whom nobody may take."""
        leaf = self.chance.choice(self.leaves)
        self.taken.append((leaf, GPU_MILLI))
        self.kept_pool.accounts.usage.add(leaf, GPU_MILLI, reserved=False)

    def give_up(self) -> None:
        """He ends."""
        if self.taken:
            leaf, milli = self.taken.pop()
            self.kept_pool.accounts.usage.add(leaf, -milli, reserved=False)

    def entitle(self) -> None:
        """A new cycle: other entitlements."""
        for branch in range(1, len(self.kept_pool.tree)):
            if self.chance.random() < 0.3:
                self.kept_pool.entitled[branch] = self.chance.randint(0, 6) * GPU_MILLI
        self.kept_pool.context(reserved=False).searches.renew()

    def happen(self) -> None:
        """One of them."""
        self.chance.choice((self.leave, self.leave, self.come_back, self.take, self.give_up, self.entitle))()


def test_who_is_told_that_he_finds_nobody_finds_nobody() -> None:
    refused = granted = 0
    for seed in range(30):
        chance = Random(seed)
        mode = chance.choice((ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE))
        kept_pool = full_books(chance, mode)
        moves, context = Moves(kept_pool, chance), kept_pool.context(reserved=False)
        for _ in range(40):
            moves.happen()
            fresh = InfeasibleSearches(kept_pool.ledger, kept_pool.preemption_policy, context.eligible)
            for leaf, priority, gpus in product(moves.leaves, (20, 50, 70), (1, 2)):
                claim = WorkloadClaim("new", leaf, priority, reserved=False, milli=gpus * GPU_MILLI)
                kept, now = context.searches, fresh
                if not kept.any_at_once(claim):
                    refused += 1
                    assert not now.any_at_once(claim), (seed, claim)
                else:
                    granted += now.any_at_once(claim)
                group, then = now.group(claim), kept.group(claim)
                if now.any_at_once(claim):
                    taken = {each.workload.id for each in context.eligible if group.has(each, kept_pool.tree)}
                    known = {each.workload.id for each in context.eligible if then.has(each, kept_pool.tree)}
                    assert taken <= known, (seed, claim)
    assert refused > 1000
    assert granted > 1000


def test_looked_at_anew_it_is_as_if_made_now() -> None:
    smaller = 0
    for seed in range(20):
        chance = Random(seed)
        kept_pool = full_books(
            chance, chance.choice((ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE))
        )
        moves, context = Moves(kept_pool, chance), kept_pool.context(reserved=False)
        for _ in range(40):
            moves.happen()
            kept, now = (
                context.searches,
                InfeasibleSearches(kept_pool.ledger, kept_pool.preemption_policy, context.eligible),
            )
            for leaf, priority in product(moves.leaves, (20, 50, 70)):
                claim = WorkloadClaim("new", leaf, priority, reserved=False, milli=GPU_MILLI)
                smaller += kept.group(claim) != now.group(claim)
                kept.look_anew(claim)
                assert kept.group(claim) == now.group(claim), (seed, claim)
                assert kept.any_at_once(claim) == now.any_at_once(claim), (seed, claim)
    assert smaller > 100


def test_what_is_kept_of_what_would_be_left_is_never_too_little() -> None:
    refused = granted = remembered = 0
    for seed in range(40):
        chance = Random(seed)
        mode = chance.choice((ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE))
        kept_pool = full_books(chance, mode, sharing=chance.choice((1, 2)))
        moves, context = Moves(kept_pool, chance), kept_pool.context(reserved=False)
        requests = [
            (kept_pool.requests.of(waiting("w", "a", gpus, pods=pods)), gpus, pods) for gpus, pods in KINDS
        ]
        for _ in range(40):
            moves.happen()
            kept, now = (
                context.searches,
                InfeasibleSearches(kept_pool.ledger, kept_pool.preemption_policy, context.eligible),
            )
            for leaf, priority, (request, gpus, pods) in product(moves.leaves, (20, 50, 70), requests):
                claim = WorkloadClaim(
                    "new", leaf, priority, reserved=False, milli=int(gpus * pods * GPU_MILLI)
                )
                closed = kept.known_infeasible(leaf, priority, claim.milli, request, pods)
                if closed is not None and now.any_at_once(claim):
                    remembered += 1
                    assert not now.might_take(claim, request, pods, context.tally, closed), (
                        seed,
                        claim,
                        pods,
                    )
                if chance.random() < 0.3 and now.any_at_once(claim):
                    might = kept.might_take(claim, request, pods, context.tally)
                    assert might or not now.might_take(claim, request, pods, context.tally), (
                        seed,
                        claim,
                        pods,
                    )
                    granted, refused = granted + might, refused + (not might)
    assert refused > 1000
    assert granted > 1000
    assert remembered > 100


def test_where_a_branch_may_give_more_than_before_nothing_is_known_any_more() -> None:
    """u is half a GPU above its due: of its two halves of a device only one may go. When it has another half GPU
    elsewhere, both may."""
    rows = [placed(f"u{at}", "u", 0.5, on="n0:0") for at in range(2)]
    rows += [placed("r", "r", on="n0:1", priority=100)]
    teams = (team("r", reserved=1), team("s", reserved=1), team("u", reserved=0.5))
    state = State.of(Snapshot((pool(),), teams, (node("n0", 2),), tuple(rows)))
    decide(state, NOW)
    (kept_pool,) = KeptState.of(state).pools.values()
    s, u = (kept_pool.tree.leaf_of[team_id] for team_id in ("s", "u"))
    kept_pool.entitled[s], kept_pool.entitled[u] = GPU_MILLI, GPU_MILLI // 2
    context, request = kept_pool.context(reserved=False), kept_pool.requests.of(waiting("w", "s"))
    context.searches.renew()
    claim = WorkloadClaim("w", s, 50, reserved=False, milli=GPU_MILLI)
    assert not context.searches.might_take(claim, request, 1, context.tally)
    assert context.searches.known_infeasible(s, 50, GPU_MILLI, request, 1) == frozenset()
    kept_pool.accounts.usage.add(u, GPU_MILLI // 2, reserved=False)
    assert context.searches.known_infeasible(s, 50, GPU_MILLI, request, 1) is None
    assert context.searches.might_take(claim, request, 1, context.tally)
