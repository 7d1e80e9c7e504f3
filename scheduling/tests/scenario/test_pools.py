"""Pools, policies and nodes as rows."""

# ruff: noqa: E501 - a refusal stands on one line of its table

import pytest

from scheduling.engine import (
    DAY_MS,
    DeviceInfo,
    ElasticPreemption,
    Fairness,
    NodeInfo,
    NodeOrder,
    Policy,
    PoolInfo,
    Queueing,
    Sharing,
    Slicing,
    Taint,
    TypicalRequest,
)
from scheduling.scenario import rows

from .builder import loaded, refusal


def _pools(content: str) -> str:
    return f"version: 1\npools:\n{content}"


def _node(facts: str) -> NodeInfo:
    return loaded(pools=f"pools: [{{name: main, nodes: [{{name: n0, {facts}}}]}}]\n").snapshot.nodes[0]


def test_a_policy_has_the_defaults_of_the_engine() -> None:
    scenario = loaded(pools="pools: [{name: main}, {name: two, policy: {min_runtime: null}}]\n")
    assert scenario.snapshot.pools == (PoolInfo("main", "main"), PoolInfo("two", "two"))


def test_every_rule_of_a_policy_is_read() -> None:
    policy = (
        "{queueing: strict-fifo, elastic_preemption: never, placement: spread, fairness: usage, usage_half_life: 1d,"
        " min_runtime: 5m, max_preemptions: 3, default_time_limit: 1h, sharing: none}"
    )
    scenario = loaded(pools=f"pools: [{{name: main, policy: {policy}}}]\n")
    assert scenario.snapshot.pools[0].policy == Policy(
        queueing=Queueing.STRICT_FIFO,
        elastic_preemption=ElasticPreemption.NEVER,
        placement=NodeOrder.SPREAD,
        fairness=Fairness.USAGE,
        usage_half_life_ms=DAY_MS,
        min_runtime_ms=300_000,
        max_preemptions=3,
        default_time_limit_ms=3_600_000,
        sharing=Sharing.NONE,
    )


def test_topology_and_typical_requests_are_read() -> None:
    pools = "pools: [{name: main, topology: [zone, rack], recent: [{gpus: 0.46, weight: 0.5}, {gpus: 8}]}]\n"
    pool = loaded(pools=pools).snapshot.pools[0]
    assert pool.topology == ("zone", "rack")
    assert pool.recent == (TypicalRequest(460, 0.5), TypicalRequest(8000, 1.0))


def test_a_bare_node_has_gpus_and_no_limits() -> None:
    assert _node("gpus: 2") == NodeInfo("n0", "n0", "main", (DeviceInfo(0), DeviceInfo(1)))


def test_every_fact_of_a_node_is_read() -> None:
    node = _node(
        "gpus: 2, gpu_type: H100, gpu_memory_mib: 81920, cpu: 1.5, memory_mib: 64, labels: {rack: 1, area: b},"
        ' partition: p, ready: false, cordoned: true, taints: ["k=v:NoExecute", k], foreign: 1, cluster: c,'
        " sharing: false"
    )
    devices = (DeviceInfo(0, "H100", 81920), DeviceInfo(1, "H100", 81920, foreign=True))
    assert (node.devices, node.cpu_milli, node.memory_mib) == (devices, 1500, 64)
    assert node.labels == (("area", "b"), ("rack", "1"))
    assert node.taints == (Taint("k", "v", "NoExecute"), Taint("k"))
    assert (node.partition, node.cluster) == ("p", "c")
    assert (node.ready, node.cordoned, node.sharing) == (False, True, False)


def test_slices_are_read_with_their_share() -> None:
    node = _node("gpus: 2, gpu_type: mig, slices: mig, slice_milli: 143, foreign: 1")
    mig = (Slicing.MIG, 143)
    assert node.devices == (DeviceInfo(0, "mig", None, False, *mig), DeviceInfo(1, "mig", None, True, *mig))
    assert _node("gpus: 1, slices: replicas").devices == (DeviceInfo(0, slicing=Slicing.REPLICAS),)
    assert _node("gpus: 1, slices: null, slice_milli: 1000").devices == (DeviceInfo(0),)


def test_a_taint_may_be_a_number_in_quotes() -> None:
    assert _node('gpus: 1, taints: ["1", key=1]').taints == (Taint("1"), Taint("key", "1"))


def test_a_count_numbers_nodes_from_zero() -> None:
    pools = 'pools: [{name: main, nodes: [{count: 3, name: "w{i}", gpus: 1}, {name: "x{i}", gpus: 1}]}]\n'
    assert [node.id for node in loaded(pools=pools).snapshot.nodes] == ["w0", "w1", "w2", "x{i}"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{policy: {}}", "a pool has no name; one is required"),
        ("{name: a, poliy: {}}", 'a pool has the unknown key "poliy"; allowed are name, nodes, policy, recent, topology'),
        ("{name: a, policy: {queueing: fifo}}", 'pool "a": policy: queueing is fifo; allowed are strict-fifo, best-effort-fifo, backfill'),
        ("{name: a, policy: {sharing: mps}}", 'pool "a": policy: sharing is mps; allowed are fractions, none'),
        ("{name: a, policy: {usage_half_life: 0s}}", 'pool "a": policy: usage_half_life is 0s; allowed are durations from 1ms to ten years'),
        ("{name: a, policy: {max_preemptions: -1}}", 'pool "a": policy: max_preemptions is -1; allowed are whole numbers from 0 to 1,000,000'),
        ("{name: a, topology: [rack, rack]}", 'pool "a": topology lists "rack" twice; levels are unique'),
        ("{name: a, topology: [node]}", 'pool "a": topology lists "node"; it is always the innermost and not listed'),
        ("{name: a, recent: [{weight: 1}]}", "a recent request has no gpus; one is required"),
        ("{name: a, recent: [{gpus: 1.5}]}", "a recent request: gpus is 1.5; allowed are parts of one GPU and whole numbers from 1 to 1,024"),
        ("{name: a, recent: [{gpus: 1, weight: -1}]}", "a recent request: weight is -1; allowed are numbers from 0 to 1,000,000"),
        ("{name: a, nodes: {}}", 'pool "a": nodes is a mapping; allowed is a list'),
        ("{name: a, nodes: [{name: n}]}", 'node "n" has no gpus; one is required'),
        ("{name: a, nodes: [{name: n, gpus: 1025}]}", 'node "n": gpus is 1025; allowed are whole numbers from 0 to 1,024'),
        ("{name: a, nodes: [{name: n, gpus: 0.5}]}", 'node "n": gpus is 0.5; allowed are whole numbers from 0 to 1,024'),
        ("{name: a, nodes: [{name: n, gpus: 2, foreign: 3}]}", 'node "n": foreign is 3; allowed are whole numbers from 0 to 2'),
        ("{name: a, nodes: [{name: n, gpus: 2, labels: {rack: null}}]}", 'node "n": labels has no rack; one is required'),
        ('{name: a, nodes: [{name: n, gpus: 2, taints: ["k:Never"]}]}', 'node "n": taints has "k:Never"; allowed is "key=value:EFFECT" with NoSchedule, PreferNoSchedule, NoExecute'),
        ("{name: a, nodes: [{name: n, gpus: 2, taints: [1]}]}", 'node "n": taints has 1, a number; allowed is text, in quotes'),
        ("{name: a, nodes: [{name: n, gpus: 2, taints: [true]}]}", 'node "n": taints has true, true or false; allowed is text, in quotes'),
        ("{name: a, nodes: [{name: n, gpus: 2, slices: half}]}", 'node "n": slices is half; allowed are mig, replicas'),
        ("{name: a, nodes: [{name: n, gpus: 2, slices: whole}]}", 'node "n": slices is whole; allowed are mig, replicas'),
        ("{name: a, nodes: [{name: n, gpus: 2, slices: replicas, slice_milli: 0}]}", 'node "n": slice_milli is 0; allowed are whole numbers from 1 to 1,000'),
        ("{name: a, nodes: [{name: n, gpus: 2, slices: replicas, slice_milli: 1001}]}", 'node "n": slice_milli is 1001; allowed are whole numbers from 1 to 1,000'),
        ("{name: a, nodes: [{name: n, gpus: 2, slice_milli: 143}]}", 'node "n": slice_milli is 143; it needs slices: allowed are mig, replicas'),
        ("{name: a, nodes: [{name: n, gpus: 2, slices: mig}]}", 'node "n": slices is mig; a gpu_type is required: MIG slices go to workloads that name it'),
        ("{name: a, nodes: [{name: n, gpus: 2, gpu_type: A}, {name: m, gpus: 2, gpu_type: A, slices: mig}]}", 'node "m": gpu_type is A; whole GPUs and slices of the pool would have one type; allowed is one of its own for each'),
        ("{name: a, nodes: [{name: n, gpus: 1}, {name: n, gpus: 1}]}", 'the node "n" is given twice, first in line 3; names are unique'),
        ("{name: a, nodes: [{name: n, count: 2, gpus: 1}]}", 'node "n": name is n; with a count the name needs "{i}", which becomes 0, 1, 2 and so on'),
        ('{name: a, nodes: [{name: "n{i}", count: 1000001, gpus: 1}]}', 'node "n{i}": count is 1000001; allowed are whole numbers from 0 to 1,000,000'),
    ],
)  # fmt: skip
def test_what_is_no_pool_is_refused(row: str, sentence: str) -> None:
    error = refusal(_pools(f"  - {row}\n"))
    assert (error.line, error.message) == (3, sentence)


def test_the_line_is_that_of_the_offending_value() -> None:
    assert refusal(_pools("  - name: a\n    nodes:\n      - name: n\n        gpus: many\n")).line == 6
    assert refusal(_pools("  - {name: a}\n  - {name: a}\n")).line == 4


def test_a_million_names_of_a_kind_is_the_most_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_COUNT", 3)
    error = refusal(
        _pools('  - {name: a, nodes: [{name: "a{i}", count: 3, gpus: 0},\n    {name: b, gpus: 0}]}\n')
    )
    assert (error.line, error.message) == (4, "this is node number 4; 3 are allowed")
