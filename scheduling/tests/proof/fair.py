"""All lawful sets of victims of a newcomer by the fair-share rule, by trying every one (section 7).

Whether shares allow a set is judged by the checker, which shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

from scheduling.checker.board import Board
from scheduling.checker.eligible import Admission
from scheduling.checker.picture import Picture
from scheduling.checker.quota import Book
from scheduling.checker.shares import Shares
from scheduling.checker.victims import Taking, broken_rights, right_of
from scheduling.engine import ElasticPreemption, Plan, Policy, Snapshot, WorkloadInfo
from scheduling.tests.engine.build import NOW, team
from scheduling.tests.proof.victims import STATUSES, Losses, crowded, fits, losses_of


def shared(chance: Random) -> Snapshot:
    """A small pool, nearly full, whose teams have had more or less than is due to them; one newcomer of priority 50."""
    world = crowded(chance)
    guarantees = (0, 0, 1, 2, 3)
    teams = (
        team("top", reserved=chance.choice((0, 2))),
        team("a", "top", weight=chance.randint(1, 3), reserved=chance.choice(guarantees)),
        team("b", "top", weight=chance.randint(1, 3), reserved=chance.choice(guarantees)),
        team("c", weight=chance.randint(1, 3), reserved=chance.choice(guarantees)),
    )
    mode = chance.choice((ElasticPreemption.PRIORITY, ElasticPreemption.FAIR_SHARE))
    rows = tuple(
        replace(
            row,
            team=chance.choice("ab" if row.id == "new" else "abc"),
            priority=50 if row.id == "new" or (not row.reserved and chance.random() < 0.7) else row.priority,
        )
        for row in world.workloads
    )
    pools = (replace(world.pools[0], policy=Policy(elastic_preemption=mode)),)
    return replace(world, pools=pools, teams=teams, workloads=rows)


def lawful_sets(world: Snapshot, plan: Plan, newcomer: WorkloadInfo) -> Iterator[Losses]:
    """Every set of victims that the rules allow and with whom the newcomer fits."""
    picture = Picture(world, plan, NOW)
    admission = Admission(picture)
    if not admission.of(newcomer).pools:
        return
    book = Book(picture, "main")
    board = Board(picture, admission, book, Shares(picture, admission, book))
    policy = world.pools[0].policy
    others = [
        each for each in world.workloads if each.status in STATUSES and right_of(policy, newcomer, each)
    ]
    for choice in product(*(tuple(losses_of(each)) for each in others)):
        losses = tuple(loss for loss in choice if loss.pods)
        if not losses or not fits(world, newcomer, losses):
            continue
        takings = [taking for loss in losses for taking in _takings(loss.workload, losses)]
        if next(broken_rights(board, newcomer, takings), None) is None:
            yield losses


def named(losses: Losses) -> frozenset[tuple[str, bool, frozenset[int]]]:
    """A set by what it takes of whom."""
    pods = ((loss, frozenset(pod.pod_index for pod in loss.pods)) for loss in losses)
    return frozenset((loss.workload.id, loss.whole, indexes) for loss, indexes in pods)


def _takings(workload: WorkloadInfo, losses: Losses) -> Iterator[Taking]:
    """What is taken of one workload: all at once, or pod by pod."""
    loss = next(loss for loss in losses if loss.workload.id == workload.id)
    if loss.whole:
        yield Taking(workload, loss.pods, whole=True)
    else:
        yield from (Taking(workload, (pod,), whole=False) for pod in loss.pods)
