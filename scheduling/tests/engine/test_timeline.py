"""When a gang fits, and on which nodes, as timelines tell it: the plain one and the one that looks at few nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.kept_timeline import KeptTimeline
from scheduling.engine import Topology
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.reasons.timeline import PodEnd, Timeline
from scheduling.tests.engine.build import MINUTE, NOW, node, pool, waiting

NODES, RACKS = 7, 3
GANG = PodRequest.of(waiting("gang", "a", pods=3, topology=Topology(required="rack")))
nodes = st.lists(
    st.lists(st.sampled_from([None, 0, 10, 20, 30]), min_size=2, max_size=2), min_size=NODES, max_size=NODES
)


@given(nodes, st.integers(2, 3))
@settings(deadline=None)
def test_a_gang_is_told_of_the_domain_where_it_fits_first(ends: list[list[int | None]], pods: int) -> None:
    """Of equal ones it is that of the first nodes, which need not be in the first rack."""
    rows = [node(f"n{rank}", 2, labels={"rack": f"r{(NODES - rank) % RACKS}"}) for rank in range(NODES)]
    fleet = Nodes(pool(topology=["rack"]), rows, (), topological=True)
    ledger, held = KeptLedger(fleet, ()), {}
    for rank, times in enumerate(ends):
        ledger.later.change(rank, [(0, 1000), (1, 1000)], 0, 0, -1)
        known = [(at, None if time is None else NOW + time) for at, time in enumerate(times)]
        held[rank] = [PodEnd(time, True, [(at, 1000)], 0, 0) for at, time in known]
    timeline = Timeline(fleet, ledger.later.free, NOW, held, without_elastic=False)
    alone = [timeline.when(GANG, pods, among=range(rack, NODES, RACKS)) for rack in range(RACKS)]
    assert timeline.when(GANG, pods) == min((each for each in alone if each is not None), default=None)
    kept = KeptTimeline(fleet, ledger.later.free, NOW, held, without_elastic=False)
    assert kept.when(GANG, pods) == timeline.when(GANG, pods)


@pytest.mark.parametrize("kind", [Timeline, KeptTimeline])
def test_at_equal_times_a_gang_is_told_of_the_first_nodes(kind: type[Timeline]) -> None:
    """Two pods of a GPU fit on n2 after 5 minutes, and on n0 or on n1 after 10, where half a GPU is free before."""
    gang = PodRequest.of(waiting("gang", "a", pods=2))
    fleet = Nodes(pool(), [node(f"n{rank}", 1) for rank in range(3)], (), topological=False)
    ledger = KeptLedger(fleet, ())
    ends = {0: [(10, 1000)], 1: [(1, 500), (10, 500)], 2: [(5, 1000)]}
    held: dict[int, list[PodEnd]] = {}
    for rank, rows in ends.items():
        ledger.later.change(rank, [(0, 1000)], 0, 0, -1)
        held[rank] = [PodEnd(NOW + time * MINUTE, True, [(0, milli)], 0, 0) for time, milli in rows]
    timeline = kind(fleet, ledger.later.free, NOW, held, without_elastic=False)
    assert timeline.when(gang, 2) == (NOW + 10 * MINUTE, [2, 0])
