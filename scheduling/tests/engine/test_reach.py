"""What is kept of whom newcomers could take says no only where a look from nothing says no."""

from __future__ import annotations

from itertools import product
from random import Random

from scheduling.engine import GPU_MILLI, ElasticPreemption, Snapshot, State, decide
from scheduling.engine.books import Books
from scheduling.engine.preemption.policy import Claim
from scheduling.engine.prospects import Prospects
from scheduling.engine.standing import Standing
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


def full_books(chance: Random, mode: ElasticPreemption, sharing: int = 1) -> Books:
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
    (books,) = state.books.values()
    return books


class Moves:
    """Things that happen to books between two looks."""

    def __init__(self, books: Books, chance: Random) -> None:
        self.books = books
        self.chance = chance
        self.roster = books.court(reserved=False).roster
        self.away: list[Standing] = []
        self.taken: list[tuple[int, int]] = []
        self.leaves = list(books.tree.leaf_of.values())

    def leave(self) -> None:
        """A victim goes, as one does in a cycle."""
        here = list(self.roster)
        if here:
            standing = self.chance.choice(here)
            self.roster.drop(standing)
            self.books.ledger.remove(standing.workload)
            self.away.append(standing)
            self.books.accounts.usage.add(standing.leaf, -standing.milli, reserved=False)

    def come_back(self) -> None:
        """One who went stands there again."""
        if self.away:
            standing = self.away.pop(self.chance.randrange(len(self.away)))
            self.books.ledger.add(standing.workload)
            self.roster.add(standing)
            self.books.accounts.usage.add(standing.leaf, standing.milli, reserved=False)

    def take(self) -> None:
        """Somebody starts whom nobody may take."""
        leaf = self.chance.choice(self.leaves)
        self.taken.append((leaf, GPU_MILLI))
        self.books.accounts.usage.add(leaf, GPU_MILLI, reserved=False)

    def give_up(self) -> None:
        """He ends."""
        if self.taken:
            leaf, milli = self.taken.pop()
            self.books.accounts.usage.add(leaf, -milli, reserved=False)

    def entitle(self) -> None:
        """A new cycle: other entitlements."""
        for branch in range(1, len(self.books.tree)):
            if self.chance.random() < 0.3:
                self.books.entitled[branch] = self.chance.randint(0, 6) * GPU_MILLI
        self.books.court(reserved=False).prospects.renew()

    def happen(self) -> None:
        """One of them."""
        self.chance.choice((self.leave, self.leave, self.come_back, self.take, self.give_up, self.entitle))()


def test_who_is_told_that_he_finds_nobody_finds_nobody() -> None:
    refused = granted = 0
    for seed in range(30):
        chance = Random(seed)
        mode = chance.choice((ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE))
        books = full_books(chance, mode)
        moves, court = Moves(books, chance), books.court(reserved=False)
        for _ in range(40):
            moves.happen()
            fresh = Prospects(books.ledger, books.preemption_policy, court.roster)
            for leaf, priority, gpus in product(moves.leaves, (20, 50, 70), (1, 2)):
                claim = Claim("new", leaf, priority, reserved=False, milli=gpus * GPU_MILLI)
                kept, now = court.prospects, fresh
                if not kept.any_at_once(claim):
                    refused += 1
                    assert not now.any_at_once(claim), (seed, claim)
                else:
                    granted += now.any_at_once(claim)
                group, then = now.group(claim), kept.group(claim)
                if now.any_at_once(claim):
                    taken = {each.workload.id for each in court.roster if group.has(each, books.tree)}
                    known = {each.workload.id for each in court.roster if then.has(each, books.tree)}
                    assert taken <= known, (seed, claim)
    assert refused > 1000
    assert granted > 1000


def test_looked_at_anew_it_is_as_if_made_now() -> None:
    smaller = 0
    for seed in range(20):
        chance = Random(seed)
        books = full_books(chance, chance.choice((ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE)))
        moves, court = Moves(books, chance), books.court(reserved=False)
        for _ in range(40):
            moves.happen()
            kept, now = court.prospects, Prospects(books.ledger, books.preemption_policy, court.roster)
            for leaf, priority in product(moves.leaves, (20, 50, 70)):
                claim = Claim("new", leaf, priority, reserved=False, milli=GPU_MILLI)
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
        books = full_books(chance, mode, sharing=chance.choice((1, 2)))
        moves, court = Moves(books, chance), books.court(reserved=False)
        requests = [
            (books.requests.of(waiting("w", "a", gpus, pods=pods)), gpus, pods) for gpus, pods in KINDS
        ]
        for _ in range(40):
            moves.happen()
            kept, now = court.prospects, Prospects(books.ledger, books.preemption_policy, court.roster)
            for leaf, priority, (request, gpus, pods) in product(moves.leaves, (20, 50, 70), requests):
                claim = Claim("new", leaf, priority, reserved=False, milli=int(gpus * pods * GPU_MILLI))
                closed = kept.in_vain(leaf, priority, claim.milli, request, pods)
                if closed is not None and now.any_at_once(claim):
                    remembered += 1
                    assert not now.might_take(claim, request, pods, court.tally, closed), (seed, claim, pods)
                if chance.random() < 0.3 and now.any_at_once(claim):
                    might = kept.might_take(claim, request, pods, court.tally)
                    assert might or not now.might_take(claim, request, pods, court.tally), (seed, claim, pods)
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
    (books,) = state.books.values()
    s, u = (books.tree.leaf_of[team_id] for team_id in ("s", "u"))
    books.entitled[s], books.entitled[u] = GPU_MILLI, GPU_MILLI // 2
    court, request = books.court(reserved=False), books.requests.of(waiting("w", "s"))
    court.prospects.renew()
    claim = Claim("w", s, 50, reserved=False, milli=GPU_MILLI)
    assert not court.prospects.might_take(claim, request, 1, court.tally)
    assert court.prospects.in_vain(s, 50, GPU_MILLI, request, 1) == frozenset()
    books.accounts.usage.add(u, GPU_MILLI // 2, reserved=False)
    assert court.prospects.in_vain(s, 50, GPU_MILLI, request, 1) is None
    assert court.prospects.might_take(claim, request, 1, court.tally)
