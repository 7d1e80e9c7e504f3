"""Where the pods of a gang may lie together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine import NodeInfo, Plan, PoolInfo, Topology, TypicalRequest, WorkloadInfo
from scheduling.tests.engine.build import node, nodes_of, placed, plan, pool, team, waiting, waits

A = [team("a")]
LEVELS = pool(topology=["zone", "block", "rack"])


def nodes(*paths: str, gpus: int = 2, **fields: Any) -> list[NodeInfo]:
    """Nodes named by their paths: ``"a/b/c/0"`` is the first node of rack c in block b of zone a."""
    return [
        node(
            path,
            gpus,
            labels=dict(zip(("zone", "block", "rack"), path.split("/")[:-1], strict=False)),
            **fields,
        )
        for path in paths
    ]


def gang(
    pods: int, gpus: float = 2, *, required: str | None = None, preferred: str | None = None, **fields: Any
) -> WorkloadInfo:
    return waiting("w", "a", gpus, pods=pods, topology=Topology(required, preferred), **fields)


def decided(
    fleet: Iterable[NodeInfo], row: WorkloadInfo, *busy: WorkloadInfo, rules: PoolInfo = LEVELS
) -> Plan:
    return plan(fleet, A, [*busy, row], rules)


def lies(
    fleet: Iterable[NodeInfo], row: WorkloadInfo, *busy: WorkloadInfo, rules: PoolInfo = LEVELS
) -> Sequence[str]:
    return nodes_of(decided(fleet, row, *busy, rules=rules), "w")


#: Two zones. Zone a has one block of two racks with two nodes each; zone b two blocks of a rack with two nodes each.
TREE = nodes("a/m/r/0", "a/m/r/1", "a/m/s/0", "a/m/s/1", "b/n/t/0", "b/n/t/1", "b/o/u/0", "b/o/u/1")


@pytest.mark.parametrize(
    ("pods", "required", "preferred", "inside"),
    [
        (2, "rack", None, "a/m/r"),
        (4, "block", None, "a/m"),
        (4, "zone", None, "a"),
        (1, None, "node", "a/m/r/0"),
        (2, None, "rack", "a/m/r"),
        (2, None, "node", "a/m/r"),
        (4, None, "rack", "a/m"),
        (4, "zone", "rack", "a/m"),
        (2, "zone", "rack", "a/m/r"),
    ],
)
def test_a_gang_lies_in_the_narrowest_domain_from_the_preferred_level_outwards(
    pods: int, required: str | None, preferred: str | None, inside: str
) -> None:
    found = lies(TREE, gang(pods, required=required, preferred=preferred))
    assert all(name.startswith(inside) for name in found)
    assert len(found) == pods


def test_what_it_prefers_it_gives_up_level_by_level_but_what_it_requires_never() -> None:
    """No rack has two nodes free: the block of zone a has, and zone b has across its blocks."""
    busy = [placed("x", "a", 2, on="a/m/r/1:0,1"), placed("y", "a", 2, on="a/m/s/1:0,1")]
    far = [placed("z", "a", 2, on="b/n/t/1:0,1"), placed("v", "a", 2, on="b/o/u/1:0,1")]
    assert lies(TREE, gang(2, preferred="rack"), *busy, *far) == ["a/m/r/0", "a/m/s/0"]
    assert lies(TREE, gang(2, required="zone", preferred="rack"), *busy, *far) == ["a/m/r/0", "a/m/s/0"]
    assert waits(decided(TREE, gang(2, required="rack"), *busy, *far)) == {"w": "waiting-for-topology"}
    assert waits(decided(TREE, gang(3, required="zone", preferred="rack"), *busy, *far)) == {
        "w": "waiting-for-topology"
    }
    assert len(lies(TREE, gang(3, preferred="rack"), *busy, *far)) == 3


def test_a_preferred_level_outside_the_required_one_leaves_the_required_one() -> None:
    assert lies(TREE, gang(2, required="rack", preferred="zone")) == ["a/m/r/0", "a/m/r/1"]


def test_the_domain_that_fits_tightest_comes_first() -> None:
    busy = placed("x", "a", 1, on="b/o/u/0:0")
    assert lies(TREE, gang(3, 1, required="rack"), busy) == ["b/o/u/0", "b/o/u/1"]


def test_how_tightly_a_domain_fits_counts_those_who_have_just_started() -> None:
    """The first takes all of rack c, the second the smaller node of rack a, which then has less free than b."""
    fleet = [
        *nodes("z/m/a/0", gpus=4),
        *nodes("z/m/a/1", gpus=2),
        *nodes("z/m/b/0", gpus=5),
        *nodes("z/m/c/0", gpus=4),
    ]
    first = waiting("first", "a", 2, pods=2, priority=70, topology=Topology("rack"))
    second = waiting("second", "a", 2, priority=60)
    found = decided(fleet, gang(2, required="rack"), first, second)
    assert nodes_of(found, "first") == ["z/m/c/0"]
    assert nodes_of(found, "second") == ["z/m/a/1"]
    assert nodes_of(found, "w") == ["z/m/a/0"]


def test_of_equally_tight_ones_the_one_with_the_fewest_nodes_used_then_by_name() -> None:
    """All racks have four GPUs free; two pods of two fit on one node of racks b and c only."""
    fleet = [*nodes("z/m/a/0", "z/m/a/1"), *nodes("z/m/b/0", gpus=4), *nodes("z/m/c/0", gpus=4)]
    assert lies(fleet, gang(2, required="rack")) == ["z/m/b/0"]


def test_gpus_that_the_pods_cannot_use_make_no_domain_fit() -> None:
    """Rack a has fewer GPUs free, but its second node lacks CPU; in rack b no node has two whole GPUs but one."""
    fleet = [
        *nodes("z/m/a/0", cpu_milli=8000),
        *nodes("z/m/a/1", cpu_milli=1000),
        *nodes("z/m/b/0", "z/m/b/1", "z/m/b/2", gpus=3),
    ]
    assert lies(fleet, gang(2, cpu_milli=4000, required="rack")) == ["z/m/b/0", "z/m/b/1"]


def test_a_node_may_be_required_and_all_pods_lie_on_it() -> None:
    fleet = nodes("a/m/r/0", "a/m/r/1", gpus=4)
    busy = placed("x", "a", 1, on="a/m/r/1:0")
    assert lies(fleet, gang(3, 1, required="node"), busy) == ["a/m/r/1"]
    assert waits(decided(fleet, gang(5, 1, required="node"))) == {"w": "topology-impossible"}


def test_a_domain_is_a_path_of_labels_not_the_last_one() -> None:
    """Both zones have a rack called r: two nodes with that label are not in one rack."""
    fleet = nodes("a/m/r/0", "b/m/r/0")
    assert waits(decided(fleet, gang(2, required="rack"))) == {"w": "topology-impossible"}


def test_a_domain_is_of_one_cluster() -> None:
    fleet = [*nodes("a/m/r/0", cluster="east"), *nodes("a/m/r/1", "a/m/r/2", cluster="west")]
    assert lies(fleet, gang(2, required="zone")) == ["a/m/r/1", "a/m/r/2"]
    assert lies(fleet, gang(2, preferred="rack")) == ["a/m/r/1", "a/m/r/2"]
    assert waits(decided(fleet, gang(3))) == {"w": "larger-than-pool"}


def test_of_several_clusters_the_one_that_fits_tightest() -> None:
    fleet = [
        *nodes("a/m/r/0", "a/m/r/1", "a/m/r/2", cluster="east"),
        *nodes("a/m/s/0", "a/m/s/1", cluster="west"),
    ]
    assert lies(fleet, gang(2)) == ["a/m/s/0", "a/m/s/1"]


def test_nodes_without_the_label_are_in_no_domain_of_that_level() -> None:
    fleet = [*nodes("a/m/r/0"), *nodes("b/1", "b/2")]
    assert waits(decided(fleet, gang(2, required="rack"))) == {"w": "topology-impossible"}
    assert lies(fleet, gang(2, required="zone")) == ["b/1", "b/2"]


def test_a_single_pod_goes_to_the_tightest_domain_of_the_level_it_asks_for() -> None:
    fleet = [*nodes("a/m/r/0", gpus=4), *nodes("a/m/s/0", "a/m/s/1", gpus=4)]
    busy = placed("x", "a", 3, on="a/m/s/0:0,1,2")
    assert lies(fleet, gang(1, 1, required="rack"), busy) == ["a/m/r/0"]
    assert lies(fleet, gang(1, 1), busy) == ["a/m/s/0"]


def test_typical_requests_choose_the_node_inside_the_domain() -> None:
    """Rack r is tightest; in it the node with three GPUs free can spare one for a typical request of two."""
    rules = PoolInfo("main", "main", LEVELS.policy, LEVELS.topology, recent=(TypicalRequest(2000, 1.0),))
    fleet = [*nodes("a/m/r/0", gpus=2), *nodes("a/m/r/1", gpus=3), *nodes("a/m/s/0", "a/m/s/1", gpus=4)]
    assert lies(fleet, gang(1, 1, required="rack"), rules=rules) == ["a/m/r/1"]


def test_domains_that_hold_too_few_are_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty racks have enough GPUs, but not enough on one node for a pod of four."""
    tried = []
    place_in = KeptLedger._place_in

    def counted(self: KeptLedger, *given: Any, **named: Any) -> Any:
        tried.append(named["domain"].key[-1])
        return place_in(self, *given, **named)

    monkeypatch.setattr(KeptLedger, "_place_in", counted)
    small = nodes(*(f"z/m/r{rack:02}/{at}" for rack in range(50) for at in range(3)), gpus=3)
    fleet = [*small, *nodes("z/m/s/0", "z/m/s/1", gpus=8)]
    assert lies(fleet, gang(2, 4, required="rack")) == ["z/m/s/0"]
    assert tried == ["s"]
