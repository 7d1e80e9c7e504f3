"""The sentences that cycles write into events."""

import pytest

from scheduling import engine
from scheduling.explain.plan_text import PlanNames, grown, started

NAMES = PlanNames.of(
    engine.Snapshot(
        pools=(engine.PoolInfo("p", "Main"),),
        teams=(engine.TeamInfo("t", "NLP"), engine.TeamInfo("u", "Research")),
        nodes=tuple(engine.NodeInfo(f"id-{n}", f"n{n}", "p", ()) for n in range(9)),
        workloads=(),
    )
)


def pods(*nodes: int) -> tuple[engine.PodPlacement, ...]:
    return tuple(
        engine.PodPlacement(index, f"id-{node}", (engine.DeviceShare(0, 500),))
        for index, node in enumerate(nodes)
    )


@pytest.mark.parametrize(
    ("allocation", "sentence"),
    [
        ([("t", 1000)], "1 GPU on n1 and n2, of the guarantee of NLP."),
        ([(None, 1000)], "1 GPU on n1 and n2, beyond every guarantee (burst)."),
        (
            [("t", 500), ("u", 250), (None, 250)],
            "1 GPU on n1 and n2: 0.5 of the guarantee of NLP, 0.25 of the guarantee of Research, "
            "0.25 beyond every guarantee (burst).",
        ),
        ([("gone", 1000)], "1 GPU on n1 and n2, of the guarantee of a former team."),
    ],
)
def test_a_start_says_where_and_against_what_it_counts(
    allocation: list[tuple[str | None, int]], sentence: str
) -> None:
    charged = tuple(engine.Allocation(team, milli) for team, milli in allocation)
    assert started(engine.Start("w", "p", pods(1, 2), charged, (), False, None), NAMES) == sentence


def test_a_start_on_devices_that_are_emptying_says_what_it_waits_for() -> None:
    start = engine.Start("w", "p", pods(1), (engine.Allocation("t", 500),), ("v",), True, None)
    assert started(start, NAMES).endswith("created when those that stop there are gone.")


@pytest.mark.parametrize(
    ("nodes", "places"),
    [
        ((3,), "n3"),
        ((3, 3, 1), "n1 and n3"),
        ((1, 2, 3, 4), "n1, n2, n3 and n4"),
        ((1, 2, 3, 4, 5, 6), "n1, n2, n3 and 3 more nodes"),
    ],
)
def test_the_first_few_nodes_are_named(nodes: tuple[int, ...], places: str) -> None:
    assert NAMES.places(pods(*nodes)) == places


def test_a_growth_says_by_how_much() -> None:
    assert grown(engine.Grow("w", "p", pods(1, 2), ()), NAMES) == "Grew by 2 pods (1 GPU) on n1 and n2."


def test_a_level_is_a_team_a_pool_or_a_level_of_the_topology() -> None:
    assert [NAMES.level(level) for level in ("t", "p", "rack", None)] == ["NLP", "Main", "rack", ""]


def test_slices_are_told_with_their_type_and_what_they_count_as() -> None:
    mig = engine.Slicing.MIG
    cut = tuple(engine.DeviceInfo(index, "mig-1g.10gb", slicing=mig, share_milli=143) for index in range(2))
    nodes = (engine.NodeInfo("n", "n1", "p", (*cut, engine.DeviceInfo(2, "H100"))),)
    names = PlanNames.of(
        engine.Snapshot(pools=(engine.PoolInfo("p", "Main"),), teams=(), nodes=nodes, workloads=())
    )
    slices = tuple(engine.PodPlacement(index, "n", (engine.DeviceShare(index, 143),)) for index in (0, 1))
    whole = engine.PodPlacement(2, "n", (engine.DeviceShare(2, 1000),))
    free = (engine.Allocation(None, 286),)
    assert started(engine.Start("w", "p", slices, free, (), False, None), names) == (
        "2 slices of mig-1g.10gb (0.286 GPUs) on n1, beyond every guarantee (burst)."
    )
    assert grown(engine.Grow("w", "p", slices[:1], ()), names) == (
        "Grew by 1 pod, 1 slice of mig-1g.10gb (0.143 GPUs), on n1."
    )
    assert grown(engine.Grow("w", "p", (whole,), ()), names) == "Grew by 1 pod (1 GPU) on n1."
