"""Devices of which parts are shared by some only: a part comes there for whom it is, a whole GPU is not concerned."""

from dataclasses import replace

from scheduling.checker import check
from scheduling.engine import DeviceInfo, Memory, NodeInfo, NodeOrder, schedule
from scheduling.tests.engine.build import (
    NOW,
    node,
    nodes_of,
    placed,
    plan,
    pool,
    snapshot,
    started,
    team,
    waiting,
    waits,
)

TEAMS = [team("a"), team("b")]
NOT_FOR_IT = "free on GPUs that pods of another namespace share; pods of two namespaces cannot share a GPU."


def shared(name: str, *by: str | None) -> NodeInfo:
    """Return a node with a device for each of these; None is a device that nobody shares."""
    devices = (DeviceInfo(index, "H100", 81920, shared_by=each) for index, each in enumerate(by))
    return replace(node(name, len(by)), devices=tuple(devices))


def test_a_part_comes_to_a_device_of_its_own_or_that_is_free() -> None:
    found = plan(
        [shared("n", "x", "y", None)],
        TEAMS,
        [
            replace(waiting("mine", team="a", gpus=0.5), shares_with=("y",)),
            replace(waiting("other", team="b", gpus=0.5), shares_with=("z",)),
        ],
    )
    devices = {start.workload: start.placements[0].devices[0].index for start in found.starts}
    assert devices == {"mine": 1, "other": 2}


def test_a_part_waits_where_all_that_is_free_is_shared_by_others_and_is_not_impossible() -> None:
    found = plan([shared("n", "x")], TEAMS, [replace(waiting("w", team="a", gpus=0.5), shares_with=("y",))])
    assert waits(found) == {"w": "waiting-for-gpus"}


def test_two_that_ask_alike_but_for_whom_they_share_with_are_looked_at_apart() -> None:
    asking = [
        replace(waiting("closed", team="a", gpus=0.5), shares_with=("y",)),
        replace(waiting("open", team="a", gpus=0.5), shares_with=("x",)),
    ]
    assert started(plan([shared("n", "x")], TEAMS, asking)) == {"open"}


def test_whole_gpus_are_not_concerned() -> None:
    found = plan([shared("n", "x")], TEAMS, [waiting("w", team="a", gpus=1)])
    assert nodes_of(found, "w") == ["n"]


def test_a_part_preempts_nobody_on_a_device_that_it_could_not_share() -> None:
    theirs = placed("theirs", team="a", gpus=0.5, on="n:0", priority=10)
    reserved = replace(waiting("mine", team="b", gpus=0.75, priority=100), shares_with=("y",))
    nodes = [shared("n", "x")]
    closed = plan(nodes, [team("a"), team("b", reserved=1)], [theirs, reserved])
    assert not closed.preemptions
    opened = plan(nodes, [team("a"), team("b", reserved=1)], [theirs, replace(reserved, shares_with=("x",))])
    assert [each.workload for each in opened.preemptions] == ["theirs"]


def test_what_is_too_large_for_the_pool_stays_so_while_others_share_a_device() -> None:
    gang = replace(waiting("gang", team="a", gpus=0.5, pods=10), shares_with=("y",))
    found = plan([shared("n", "x", None)], TEAMS, [gang, waiting("next", team="b", gpus=1)])
    assert waits(found) == {"gang": "larger-than-pool"}
    assert started(found) == {"next"}


def test_memory_of_a_gpu_counts_as_what_it_takes_where_all_gpus_are_shared_by_others() -> None:
    """Not as 0 GPUs, of which 0 were free."""
    w = waiting("w", "a", request=Memory(20_480), priority=100)
    world = snapshot([shared("n", "x")], [team("a", reserved=1)], [replace(w, shares_with=("y",))])
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    assert found.waits[0].reason.message == (
        f"It asks for 0.25 GPUs, but of the 1 free in the pool main it may use none. 1 GPU is {NOT_FOR_IT}"
    )


def test_what_is_free_on_gpus_that_others_share_is_told_and_why_it_may_not_have_it() -> None:
    """One GPU that others share has a half left; who may share it has all it needs, whole GPUs are not concerned."""
    theirs = replace(placed("theirs", team="a", gpus=0.5, on="n:0"), shares_with=("x",))
    rows = [
        theirs,
        placed("whole", team="a", gpus=1, on="n:1", priority=100),
        replace(waiting("one", team="b", gpus=0.5), shares_with=("y",)),
        replace(waiting("two", team="b", gpus=0.5, pods=2), shares_with=("y",)),
        waiting("own", team="b", gpus=1),
    ]
    found = plan([shared("n", "x", None)], [team("a", reserved=1), team("b")], rows)
    told = {wait.workload: wait.reason for wait in found.waits}
    one, two, own = told["one"], told["two"], told["own"]
    assert one.message.endswith(f" it may use none. 0.5 GPUs are {NOT_FOR_IT}")
    assert one.next_step == "Wait until those pods have ended, or ask for whole GPUs."
    assert two.message.endswith(f" it may use none. 0.5 GPUs are {NOT_FOR_IT}")
    assert two.next_step == "Nothing to do; it starts when GPUs come free."
    assert "namespace" not in own.message


def test_what_others_leave_of_their_devices_is_not_taken_for_what_is_left_of_free_ones() -> None:
    """On the last two devices too little is left for a half, on the first two there is room for all."""
    theirs = placed("theirs", team="a", gpus=0.75, on="n:2 n:3")
    gang = replace(waiting("gang", team="b", gpus=0.5, pods=4), shares_with=("y",))
    found = plan(
        [shared("n", None, None, "x", "x")],
        TEAMS,
        [replace(theirs, shares_with=("x",)), gang],
        pool(placement=NodeOrder.SPREAD),
    )
    assert started(found) == {"gang"}
