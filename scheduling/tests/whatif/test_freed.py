"""Who would start with more idle GPUs, and what stands for them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from scheduling.engine import NodeInfo, Queueing, Slicing, Snapshot
from scheduling.reading.picture import SnapshotPicture
from scheduling.tests.engine.build import NOW, node, placed, pool, snapshot, team, waiting
from scheduling.whatif.freed import more_nodes, with_more


def picture(rows: Snapshot) -> SnapshotPicture:
    return SnapshotPicture(1, datetime.fromtimestamp(NOW / 1000, UTC), rows, {}, {})


def full(*nodes: NodeInfo) -> Snapshot:
    """Return a pool whose one node is full; three wait, by priority."""
    workloads = [
        *[placed(f"run-{number}", "acme", on=f"n0:{number}", priority=90) for number in range(8)],
        waiting("first", "acme", 4, priority=60),
        waiting("second", "acme", 4, priority=50),
        waiting("third", "acme", 1, priority=40),
    ]
    return snapshot(nodes or [node("n0")], [team("acme")], workloads, pool(), pool("lab"))


def starts(rows: Snapshot, gpus: int, pool_id: str = "main") -> set[str]:
    return {start.workload for start in with_more(picture(rows), pool_id, gpus).starts}


def test_the_queue_s_order_decides_who_starts_on_what_is_freed() -> None:
    assert starts(full(), 4) == {"first"}
    assert starts(full(), 5) == {"first", "third"}
    assert starts(full(), 9) == {"first", "second", "third"}


def test_too_little_starts_nobody_who_would_delay_the_first() -> None:
    assert starts(full(), 1) <= {"third"}
    assert "first" not in starts(full(), 3)


def ahead(rows: Snapshot, gpus: int) -> str | None:
    wait = with_more(picture(rows), "main", gpus).ahead
    return None if wait is None else wait.workload


def holding_up(**policy: Any) -> Snapshot:
    """Two nodes of four, full of reserved work; a gang of eight is first, two of one GPU are behind it."""
    run = [placed(f"run-{number}", "acme", 4, on=f"n{number}:0,1,2,3", priority=100) for number in range(2)]
    rows = [waiting("gang", "acme", 4, pods=2, priority=60), waiting("one", "acme"), waiting("two", "acme")]
    return snapshot([node("n0", 4), node("n1", 4)], [team("acme")], [*run, *rows], pool(**policy))


def test_where_more_gpus_start_fewer_the_workload_is_named_for_which_they_are_kept() -> None:
    for gpus in range(1, 17):
        found = with_more(picture(holding_up()), "main", gpus)
        idle = gpus * 1000 - sum(pod.milli for start in found.starts for pod in start.placements)
        waits = {"gang", "one", "two"} - {start.workload for start in found.starts}
        assert ahead(holding_up(), gpus) == (
            "gang" if "gang" in waits and idle and waits != {"gang"} else None
        ), gpus


def test_under_strict_fifo_the_first_is_named_behind_which_all_wait() -> None:
    assert starts(holding_up(queueing=Queueing.STRICT_FIFO), 2) == set()
    assert ahead(holding_up(queueing=Queueing.STRICT_FIFO), 2) == "gang"


def test_nobody_is_named_where_nobody_is_held_back() -> None:
    assert ahead(holding_up(queueing=Queueing.BEST_EFFORT_FIFO), 1) is None
    assert ahead(holding_up(), 16) is None


def test_slices_are_no_model_for_gpus_that_are_freed() -> None:
    cut = [node(f"s{index}", 7, gpu_type="mig", slices=Slicing.MIG, share=143) for index in range(3)]

    (found,) = more_nodes(full(*cut, node("n0")), "main", 8)

    assert {device.slicing for device in found.devices} == {Slicing.WHOLE}


def test_gpus_are_freed_in_whole_nodes_of_the_commonest_kind_and_a_rest() -> None:
    rows = full(node("n0"), node("n1", labels={"rack": "a"}), node("odd", 4, gpu_type="L4"))

    found = more_nodes(rows, "main", 20)

    assert [len(each.devices) for each in found] == [8, 8, 4]
    assert {each.devices[0].gpu_type for each in found} == {"H100"}
    assert {each.id for each in found}.isdisjoint({"n0", "n1", "odd"})


def test_nodes_that_take_nothing_stand_for_nothing() -> None:
    rows = full(node("n0", cordoned=True), node("n1", ready=False), node("n2", partition="x"))

    assert more_nodes(rows, "main", 8) == ()
    assert more_nodes(rows, "lab", 8) == ()
    assert starts(rows, 8) == set()


def test_nodes_of_a_cluster_that_is_not_heard_are_no_model_for_what_is_freed() -> None:
    far = [replace(node(f"far-{number}"), cluster="west", cluster_online=False) for number in range(3)]
    rows = full(*far, node("n0"))

    assert {each.cluster_online for each in more_nodes(rows, "main", 8)} == {True}
    assert more_nodes(full(*far), "main", 8) == ()


def test_foreign_gpus_of_the_node_are_no_part_of_what_is_freed() -> None:
    (found,) = more_nodes(full(node("n0", foreign=2)), "main", 8)

    assert not any(device.foreign for device in found.devices)


def test_what_is_larger_than_the_pool_is_never_next_and_more_gpus_lose_nobody() -> None:
    """The freed GPUs make the pool of 40 no larger, for `giant` nor for `far`, which the lab could start."""
    run = [placed(f"run-{at}", "acme", 8, on=f"n{at}:0,1,2,3,4,5,6,7", priority=100) for at in range(5)]
    rows = [
        waiting("giant", "acme", 8, pods=8, priority=90),
        waiting("far", "acme", 8, pods=6, priority=80),
        waiting("second", "acme", 8, pods=2, priority=60),
        waiting("third", "acme", 8, priority=50),
        waiting("last", "acme", 8, pods=2, priority=40),
    ]
    lab = [node(f"l{at}", pool="lab") for at in range(6)]
    run += [placed("lab", "acme", on="l0:0", priority=100)]
    nodes = [*(node(f"n{at}") for at in range(5)), *lab]
    world = snapshot(nodes, [team("acme")], [*run, *rows], pool(), pool("lab"))
    here = replace(world, workloads=tuple(replace(each, pools=_pools(each.id)) for each in world.workloads))

    found = {gpus: starts(here, gpus) for gpus in (16, 24, 32, 33, 40, 48, 64, 128)}

    assert [len(each) for each in found.values()] == [1, 2, 2, 2, 3, 3, 3, 3]
    assert set().union(*found.values()) == {"second", "third", "last"}
    assert all(ahead(here, gpus) in (None, "second", "last") for gpus in found)
    assert starts(here, 64, "lab") == {"far"}


def _pools(workload: str) -> tuple[str, ...]:
    return {"far": ("main", "lab"), "lab": ("lab",)}.get(workload, ("main",))
