"""Where placed workloads lie when the scenario says little about it."""

# ruff: noqa: E501 - a refusal stands on one line of its table

import pytest

from scheduling.scenario.loader import Scenario

from .builder import by_id, loaded, refusal, text


def _pools(nodes: str, policy: str = "{}") -> str:
    return f"pools: [{{name: main, topology: [rack], policy: {policy}, nodes: [{nodes}]}}]\n"


def _lies(scenario: Scenario, name: str) -> list[tuple[str, list[int]]]:
    """The node and the devices of each pod."""
    return [
        (placement.node, [share.index for share in placement.devices])
        for placement in by_id(scenario)[name].placements
    ]


PAIR = _pools("{name: n0, gpus: 2}, {name: n1, gpus: 2}")


def test_named_nodes_get_a_pod_each() -> None:
    scenario = loaded("name: x, team: a, pods: 2, status: running, nodes: [n1, n0]", pools=PAIR)
    assert _lies(scenario, "x") == [("n1", [0]), ("n0", [0])]
    assert by_id(scenario)["x"].pool == "main"


def test_unnamed_nodes_are_the_first_of_the_file_that_fit() -> None:
    rows = "name: x, team: a, status: running\nname: y, team: a, gpus: 2, status: running\nname: z, team: a, status: running"
    scenario = loaded(rows, pools=PAIR)
    assert [_lies(scenario, name) for name in "xyz"] == [[("n0", [0])], [("n1", [0, 1])], [("n0", [1])]]


CUT = _pools(
    "{name: cut, gpus: 2, gpu_type: mig, slices: mig, slice_milli: 143, sharing: false}, "
    "{name: shared, gpus: 2, gpu_type: part, slices: replicas, slice_milli: 250, sharing: false}, {name: gpu, gpus: 1}"
)


@pytest.mark.parametrize(
    ("asks", "node", "milli"),
    [
        ("gpu_types: [mig]", "cut", 143),
        ("gpu_types: [mig], gpus: 0.25", None, 0),
        ("gpu_types: [part]", "shared", 250),
        ("gpus: 0.25", "shared", 250),
        ("gpus: 0.5", "gpu", 500),
        ("gpus: 1", "gpu", 1000),
        ("gpus: 1, nodes: [cut]", "cut", 143),
        ("gpus: 2, nodes: [cut]", None, 0),
        ("gpus: 2, gpu_types: [mig]", None, 0),
    ],
)
def test_a_placed_pod_has_one_slice_whole_of_those_that_are_for_it(
    asks: str, node: str | None, milli: int
) -> None:
    row = f"name: x, team: a, status: running, {asks}"
    if node is None:
        assert "x" in refusal(text(row, pools=CUT)).message
        return
    (pod,) = by_id(loaded(row, pools=CUT))["x"].placements
    assert (pod.node, [share.milli for share in pod.devices]) == (node, [milli])


def test_named_nodes_come_first_wherever_they_stand() -> None:
    rows = "name: x, team: a, gpus: 2, status: running\nname: y, team: a, status: running, nodes: [n0]"
    assert _lies(loaded(rows, pools=PAIR), "x") == [("n1", [0, 1])]


def test_fractions_fill_the_devices_that_are_broken() -> None:
    rows = "\n".join(f"name: {name}, team: a, gpus: 0.5, status: running" for name in "xyz")
    scenario = loaded(rows, pools=PAIR)
    assert [_lies(scenario, name) for name in "xyz"] == [[("n0", [0])], [("n0", [0])], [("n0", [1])]]


def test_a_gang_stays_inside_one_cluster_and_its_rack() -> None:
    nodes = (
        "{name: n0, gpus: 1, cluster: x}, {name: n1, gpus: 1, cluster: y, labels: {rack: a}}, {name: n2, gpus: 1,"
        " cluster: y, labels: {rack: b}}, {name: n3, gpus: 1, cluster: y, labels: {rack: b}}"
    )
    pools = _pools(nodes)
    rack = "name: x, team: a, pods: 2, status: running, topology: {required: rack}"
    assert _lies(loaded(rack, pools=pools), "x") == [("n2", [0]), ("n3", [0])]
    assert _lies(loaded("name: x, team: a, pods: 2, status: running", pools=pools), "x") == [
        ("n1", [0]),
        ("n2", [0]),
    ]


def test_one_node_can_be_required() -> None:
    row = "name: x, team: a, pods: 2, status: running, topology: {required: node}"
    pools = _pools("{name: n0, gpus: 1}, {name: n1, gpus: 2}")
    assert _lies(loaded(row, pools=pools), "x") == [("n1", [0]), ("n1", [1])]


def test_a_failed_try_leaves_its_room_to_others() -> None:
    nodes = "{name: n0, gpus: 1, cluster: x}, {name: n1, gpus: 2, cluster: y}"
    rows = "name: x, team: a, pods: 2, status: running\nname: y, team: a, status: running"
    scenario = loaded(rows, pools=_pools(nodes))
    assert (_lies(scenario, "x"), _lies(scenario, "y")) == ([("n1", [0]), ("n1", [1])], [("n0", [0])])


def test_what_does_not_fit_whole_has_not_grown() -> None:
    scenario = loaded("name: x, team: a, pods: 9, min_pods: 2, status: running", pools=PAIR)
    assert len(by_id(scenario)["x"].placements) == 4


def test_a_queued_one_takes_what_is_free_before_what_is_emptying() -> None:
    rows = "name: old, team: a, gpus: 2, status: stopping, nodes: [n0]\n" + "\n".join(
        f"name: {name}, team: a, gpus: 2, status: queued" for name in "xy"
    )
    scenario = loaded(rows, pools=PAIR)
    assert (_lies(scenario, "x"), _lies(scenario, "y")) == ([("n1", [0, 1])], [("n0", [0, 1])])


@pytest.mark.parametrize(
    ("facts", "asked"),
    [
        ("ready: false", "gpus: 1"),
        ("cordoned: true", "gpus: 1"),
        ("partition: p", "gpus: 1"),
        ("sharing: false", "gpus: 0.5"),
        ("gpu_type: T4", "gpu_types: [H100]"),
        ('taints: ["k=v:NoSchedule"]', "tolerations: [k=w]"),
        ("gpu_memory_mib: 10", "gpu_memory_mib: 11"),
        ("cpu: 1", "cpu: 2"),
        ("memory_mib: 1", "memory_mib: 2"),
        ("foreign: 2", "gpus: 1"),
    ],
)
def test_nodes_that_would_not_take_it_are_passed_over(facts: str, asked: str) -> None:
    nodes = f"{{name: n0, gpus: 2, {facts}}}, {{name: n1, gpus: 2, gpu_type: H100, gpu_memory_mib: 11}}"
    scenario = loaded(f"name: x, team: a, status: running, {asked}", pools=_pools(nodes))
    assert _lies(scenario, "x") == [("n1", [0])]


@pytest.mark.parametrize("tolerations", ["k", "k=v"])
def test_a_tolerated_taint_keeps_nobody_out(tolerations: str) -> None:
    pools = _pools('{name: n0, gpus: 2, taints: ["k=v:NoSchedule", "soft:PreferNoSchedule"]}')
    row = f"name: x, team: a, status: running, tolerations: [{tolerations}]"
    assert _lies(loaded(row, pools=pools), "x") == [("n0", [0])]


def test_a_named_node_is_taken_as_the_fact_it_is() -> None:
    pools = _pools("{name: n0, gpus: 2, ready: false, cordoned: true, partition: p, sharing: false}")
    assert _lies(loaded("name: x, team: a, gpus: 0.5, status: running, nodes: [n0]", pools=pools), "x") == [
        ("n0", [0])
    ]


def test_any_pool_means_the_first_with_room_and_a_list_its_own_order() -> None:
    pools = "pools: [{name: one, nodes: [{name: n0, gpus: 1}]}, {name: two, nodes: [{name: m0, gpus: 1}, {name: m1, gpus: 1}]}]\n"
    rows = (
        "name: x, team: a, status: running\nname: y, team: a, status: running\n"
        "name: z, team: a, status: running, pool: [two, one]"
    )
    found = by_id(loaded(rows, pools=pools))
    assert [found[name].pool for name in "xyz"] == ["one", "two", "two"]


def test_the_rows_of_placed_workloads_may_stand_in_any_order() -> None:
    rows = [
        f"name: w{i}, team: a, gpus: {gpus}, status: running, nodes: [n0]"
        for i, gpus in enumerate((0.5, 1, 0.25, 0.25))
    ]
    there, back = (by_id(loaded("\n".join(each), pools=PAIR)) for each in (rows, rows[::-1]))
    assert {name: found.placements for name, found in there.items()} == {
        name: found.placements for name, found in back.items()
    }


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            "name: x, team: a, gpus: 3, status: running, nodes: [n0]\nname: y, team: a, gpus: 2, status: queued, nodes: [n0]",
            'workload "y" does not fit on node "n0": with it, Starting, Running and Queued ones take 5 of its 4 GPUs; allowed is what the node has',
        ),
        (
            "name: x, team: a, gpus: 3, status: starting, nodes: [n0]\nname: y, team: a, gpus: 2, status: stopping, nodes: [n0]",
            'workload "y" does not fit on node "n0": with it, Starting, Running and stopping ones take 5 of its 4 GPUs; allowed is what the node has',
        ),
        (
            "name: x, team: a, cpu: 4.5, status: running, nodes: [n0]\nname: y, team: a, cpu: 4, status: running, nodes: [n0]",
            'workload "y" does not fit on node "n0": with it, Starting, Running and stopping ones take 8.5 of its 8 CPUs; allowed is what the node has',
        ),
        (
            "name: x, team: a, status: running, nodes: [n0]\nname: y, team: a, memory_mib: 101, status: running, nodes: [n0]",
            'workload "y" does not fit on node "n0": with it, Starting, Running and stopping ones take 101 of its 100 MiB of memory; allowed is what the node has',
        ),
        (
            "name: x, team: a, gpus: 0.75, pods: 4, status: running, nodes: [n0, n0, n0, n0]\nname: y, team: a, gpus: 0.5, status: running, nodes: [n0]",
            'workload "y" does not fit on node "n0": its 4 devices cannot be divided among the pods on it, none of which spans two; allowed is what the node has',
        ),
        (
            "name: x, team: a, status: running\nname: y, team: a, gpu_memory_mib: 1001, status: running, nodes: [n0]",
            'workload "y" does not fit on node "n0": it asks for 1001 MiB of device memory; allowed is what one of the node\'s devices has',
        ),
        (
            "name: x, team: a, gpus: 3, status: running\nname: y, team: a, gpus: 0.5, pods: 4, status: running",
            'workload "y" is running and names no nodes, and none has room left for its 4 pods of 0.5 GPUs; allowed is what the pool has',
        ),
    ],
)  # fmt: skip
def test_more_than_fits_is_refused(rows: str, sentence: str) -> None:
    error = refusal(text(rows))
    assert (error.line, error.message) == (6, sentence)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ("pods: 2, nodes: [n0, m0]", 'workload "x": "n0" and "m0" are of the pools "one" and "two"; allowed are nodes of one pool'),
        ("pool: one, nodes: [m0]", 'workload "x": its node "m0" is of the pool "two"; allowed are nodes of its pools: one'),
    ],
)  # fmt: skip
def test_nodes_of_another_pool_are_refused(facts: str, sentence: str) -> None:
    pools = "pools: [{name: one, nodes: [{name: n0, gpus: 1}]}, {name: two, nodes: [{name: m0, gpus: 1}]}]\n"
    error = refusal(text(f"name: x, team: a, status: running, {facts}", pools=pools))
    assert (error.line, error.message) == (5, sentence)
