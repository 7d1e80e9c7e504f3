"""One node's devices, shared among pods that are there, come and go."""

from collections import defaultdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import DeviceInfo, DeviceShare, GpuShare, Memory, NodeInfo
from scheduling.scenario.room import (
    BOTH,
    HELD,
    PROMISED,
    Layers,
    Packing,
    Piece,
    ScenarioFree,
    pack,
    share_on,
)

STOPPING, QUEUED = (HELD,), (PROMISED,)


def _node(
    gpus: int, *, foreign: int = 0, memory_mib: int | None = None, cpu_milli: int | None = None
) -> NodeInfo:
    devices = tuple(DeviceInfo(i, "", memory_mib, foreign=i >= gpus - foreign) for i in range(gpus))
    return NodeInfo("n", "n", "main", devices, cpu_milli=cpu_milli)


def _pieces(*pods: tuple[int, Layers]) -> list[Piece]:
    return [Piece(i, f"w{i}", 0, milli, 0, 0, layers) for i, (milli, layers) in enumerate(pods)]


def _devices(packing: Packing | None, index: int) -> list[int]:
    assert packing is not None
    return [share.index for share in packing[f"w{index}", 0]]


def test_memory_is_a_share_of_the_device_rounded_up() -> None:
    assert share_on(Memory(1), _node(1, memory_mib=3)) == 334
    assert share_on(Memory(3), _node(1, memory_mib=3)) == 1000
    assert share_on(Memory(4), _node(1, memory_mib=3)) is None
    assert share_on(Memory(1), _node(1)) is None
    assert share_on(Memory(1), _node(0)) is None
    assert share_on(GpuShare(2000), _node(1)) == 2000


def test_a_fraction_goes_to_the_partly_used_device_that_fits_most_tightly() -> None:
    room = ScenarioFree(_node(3))
    for index, milli in ((1, 250), (2, 500)):
        room.take((DeviceShare(index, milli),), 0, 0, BOTH)
    assert room.pick(500, BOTH) == (DeviceShare(2, 500),)
    assert room.pick(750, BOTH) == (DeviceShare(1, 750),)
    assert room.pick(1000, BOTH) == (DeviceShare(0, 1000),)
    assert room.pick(2000, BOTH) is None


def test_foreign_devices_are_not_given_out() -> None:
    assert ScenarioFree(_node(2, foreign=1)).pick(1000, BOTH) == (DeviceShare(0, 1000),)
    assert ScenarioFree(_node(2, foreign=1)).pick(2000, BOTH) is None


def test_what_comes_prefers_devices_that_nobody_leaves() -> None:
    packing = pack(_node(2), _pieces((1000, STOPPING), (1000, QUEUED)))
    assert (_devices(packing, 0), _devices(packing, 1)) == ([0], [1])


def test_what_comes_may_take_the_devices_of_what_goes() -> None:
    packing = pack(_node(2), _pieces((2000, STOPPING), (2000, QUEUED)))
    assert _devices(packing, 0) == _devices(packing, 1) == [0, 1]


def test_the_two_sums_fit_each_by_itself() -> None:
    assert pack(_node(2), _pieces((1000, BOTH), (1000, STOPPING), (1000, QUEUED))) is not None
    assert pack(_node(2), _pieces((1000, BOTH), (1000, STOPPING), (1000, STOPPING))) is None
    assert pack(_node(2), _pieces((1000, BOTH), (1000, QUEUED), (1000, QUEUED))) is None


@pytest.mark.parametrize(
    "pods",
    [
        [(250, BOTH), (250, BOTH), (750, STOPPING), (750, STOPPING)],
        [(500, BOTH), (500, BOTH), (1000, STOPPING), (1000, QUEUED)],
        [(400, BOTH), (400, BOTH), (300, BOTH), (300, BOTH), (300, BOTH), (300, BOTH)],
    ],
)
def test_a_division_that_exists_is_found(pods: list[tuple[int, Layers]]) -> None:
    assert pack(_node(2), _pieces(*pods)) is not None


def test_cpu_counts_in_both_sums() -> None:
    pieces = [Piece(0, "w0", 0, 1000, 600, 0, BOTH), Piece(1, "w1", 0, 1000, 600, 0, QUEUED)]
    assert pack(_node(4, cpu_milli=1200), pieces) is not None
    assert pack(_node(4, cpu_milli=1199), pieces) is None


PODS = st.lists(
    st.tuples(st.sampled_from([250, 460, 500, 750, 1000, 2000]), st.sampled_from([BOTH, STOPPING, QUEUED])),
    max_size=9,
)


@given(PODS, st.randoms(use_true_random=False))
def test_no_device_is_overfull_and_the_order_of_rows_means_nothing(
    pods: list[tuple[int, Layers]], random: Random
) -> None:
    pieces = _pieces(*pods)
    shuffled = random.sample(pieces, len(pieces))
    packing = pack(_node(3), pieces)
    assert pack(_node(3), shuffled) == packing
    for layer in BOTH:
        taken: dict[int, int] = defaultdict(int)
        for piece in pieces:
            for share in (packing or {}).get((piece.workload, 0), ()):
                taken[share.index] += share.milli if layer in piece.layers else 0
        assert all(milli <= 1000 for milli in taken.values())
