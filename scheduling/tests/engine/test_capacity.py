"""How many pods the nodes hold is followed as they change, whether few of them or many."""

from __future__ import annotations

import random

import pytest

from scheduling.acceleration.indexed_pods import MANY_NODES, IndexedPods
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.tests.engine.build import node, pool, waiting

NODES = [node(f"n{at:03d}", 4, cpu_milli=16000, cluster=f"c{at % 3}") for at in range(2 * MANY_NODES)]


@pytest.mark.parametrize("changes", [3, 3 * MANY_NODES])
def test_a_tally_that_is_refreshed_is_the_one_made_anew(changes: int) -> None:
    ledger, chance = KeptLedger(Nodes(pool(), NODES, ()), ()), random.Random(changes)
    looked, taker = (
        PodRequest.of(waiting("w", "a", 2, pods=2, cpu_milli=5000)),
        PodRequest.of(waiting("t", "a", 0.5)),
    )
    level = ledger.nodes.domains(looked)[-1]
    tally = IndexedPods(ledger, looked, level)
    for _ in range(5):
        before = list(tally.totals)
        placed = [ledger.place(taker, (0,)) or () for _ in range(changes)]
        for pods in placed:
            if chance.random() < 0.5:
                ledger.undo(taker, pods)
        anew = IndexedPods(ledger, looked, level)
        assert (tally.refresh().totals, +tally.pods) == (anew.totals, +anew.pods)
        assert all(
            now - then <= more for now, then, more in zip(tally.totals, before, tally.risen, strict=True)
        )
