"""Workloads as rows: requests, classes, statuses and everything they name."""

# ruff: noqa: E501 - a refusal stands on one line of its table

import pytest

from scheduling.engine import (
    AfterPreemption,
    DependencyState,
    GpuShare,
    Memory,
    Request,
    Toleration,
    Topology,
)
from scheduling.scenario.circles import first_circle

from .builder import by_id, loaded, refusal, text, workload

TWO_POOLS = "pools: [{name: main, topology: [rack], nodes: [{name: n0, gpus: 4}]}, {name: two, nodes: [{name: m0, gpus: 1}]}]\n"


def test_a_bare_workload_is_one_elastic_pod_of_one_gpu() -> None:
    found = workload("pods: 1")
    assert (found.request, found.priority, found.pods, found.min_pods, found.pools) == (
        GpuShare(1000),
        50,
        1,
        1,
        None,
    )
    assert not found.reserved


@pytest.mark.parametrize(
    ("row", "request_read"),
    [
        ("gpus: 4", GpuShare(4000)),
        ("gpus: 0.25", GpuShare(250)),
        ("gpus: 0.5", GpuShare(500)),
        ("gpus: 0.75", GpuShare(750)),
        ("gpus: 1024", GpuShare(1_024_000)),
        ("gpu_milli: 460", GpuShare(460)),
        ("gpu_milli: 1000", GpuShare(1000)),
        ("gpu_memory_mib: 12000", Memory(12_000)),
    ],
)
def test_requests_are_whole_gpus_quarters_shares_or_memory(row: str, request_read: Request) -> None:
    assert workload(row).request == request_read


def test_every_other_fact_is_read() -> None:
    found = workload(
        "priority: 7, class: elastic, pods: 4, min_pods: 2, cpu: 0.5, memory_mib: 64, gpu_types: [H100], partition: p,"
        " topology: {required: rack, preferred: node}, time_limit: 2h, preemptions: 3, held: true,"
        " tolerations: [k, k=v], on_preemption: stop, duration: 30m"
    )
    assert (found.priority, found.pods, found.min_pods, found.cpu_milli, found.memory_mib) == (
        7,
        4,
        2,
        500,
        64,
    )
    assert (found.gpu_types, found.partition, found.topology) == (("H100",), "p", Topology("rack", "node"))
    assert (found.time_limit_ms, found.preemptions_24h, found.held) == (7_200_000, 3, True)
    assert found.tolerations == (Toleration("k"), Toleration("k", "v"))
    assert found.on_preemption is AfterPreemption.STOP


@pytest.mark.parametrize(
    ("row", "least"), [("pods: 3", 3), ("pods: 3, gang: false", 1), ("pods: 3, min_pods: 2", 2)]
)
def test_a_gang_starts_whole_unless_it_says_otherwise(row: str, least: int) -> None:
    assert workload(row).min_pods == least


@pytest.mark.parametrize(
    ("row", "pools"), [("pool: null", None), ("pool: two", ("two",)), ("pool: [two, main]", ("two", "main"))]
)
def test_pools_keep_the_order_of_preference(row: str, pools: tuple[str, ...] | None) -> None:
    assert workload(row, pools=TWO_POOLS).pools == pools


def test_who_depends_on_an_unfinished_workload_waits_for_it() -> None:
    found = by_id(loaded("name: y, team: a, depends_on: [x]\nname: x, team: a"))
    assert (found["y"].dependency, found["x"].dependency) == (DependencyState.WAITING, DependencyState.NONE)


GPUS = "allowed are 0.25, 0.5, 0.75 and whole numbers from 1 to 1,024"


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ("gpus: 1.25", f'workload "x": gpus is 1.25; the nearest are 1 and 2: {GPUS}'),
        ("gpus: 0.3", f'workload "x": gpus is 0.3; {GPUS}'),
        ("gpus: 0", f'workload "x": gpus is 0; {GPUS}'),
        ("gpus: -1", f'workload "x": gpus is -1; {GPUS}'),
        ("gpus: 1025", f'workload "x": gpus is 1025; {GPUS}'),
        ("gpus: .nan", f'workload "x": gpus is .nan; {GPUS}'),
        ("gpus: 010", f'workload "x": gpus is 010; {GPUS}'),
        ("gpu_milli: 0", 'workload "x": gpu_milli is 0; allowed are whole numbers from 1 to 1,000'),
        ("gpu_milli: 1001", 'workload "x": gpu_milli is 1001; allowed are whole numbers from 1 to 1,000'),
        ("gpus: 1, gpu_milli: 5", 'workload "x": gpu_milli is 5; gpus is given as well; allowed is one of gpus, gpu_memory_mib, gpu_milli'),
        ("pods: 0", 'workload "x": pods is 0; allowed are whole numbers from 1 to 100,000'),
        ("pods: 100001", 'workload "x": pods is 100001; allowed are whole numbers from 1 to 100,000'),
        ("priority: -1", 'workload "x": priority is -1; allowed are whole numbers from 0 to 1,000,000'),
        ("priority: 1000001", 'workload "x": priority is 1000001; allowed are whole numbers from 0 to 1,000,000'),
        ("class: reserved", 'workload "x": class is reserved; priority 50 is "elastic": allowed are "reserved" from priority 100 on and "elastic" below'),
        ("priority: 100, class: elastic", 'workload "x": class is elastic; priority 100 is "reserved": allowed are "reserved" from priority 100 on and "elastic" below'),
        ("pods: 3, min_pods: 4", 'workload "x": min_pods is 4; allowed are whole numbers from 1 to 3'),
        ("pods: 3, gang: false, min_pods: 2", 'workload "x": min_pods is 2; gang is false, which is a min_pods of 1'),
        ("pool: moon", 'workload "x": pool names the unknown pool "moon"; known are main, two'),
        ("pool: [main, main]", 'workload "x": pool is [main, main]; allowed is one pool, or a list of different pools'),
        ("pool: []", 'workload "x": pool is []; allowed is one pool, or a list of different pools'),
        ("status: done", 'workload "x": status is done; allowed are pending, queued, starting, running, stopping'),
        ("status: running, nodes: [n9]", 'workload "x": nodes names the unknown node "n9"; known are m0, n0'),
        ("status: running, nodes: [n0, n0]", 'workload "x": nodes is [n0, n0]; it names 2 nodes: allowed are 1, one for each pod'),
        ("status: running, pods: 3, min_pods: 2, nodes: [n0]", 'workload "x": nodes is [n0]; it names 1 node: allowed are 2 to 3, one for each pod'),
        ("submitted: 1m", 'workload "x": submitted is 1m; allowed are times from ten years ago to now'),
        ("submitted: -3654d", 'workload "x": submitted is -3654d; allowed are times from ten years ago to now'),
        ("time_limit: 0s", 'workload "x": time_limit is 0s; allowed are durations from 1ms to ten years'),
        ("time_limit: 4000d", 'workload "x": time_limit is 4000d; allowed are durations from 1ms to ten years'),
        ("duration: -1m", 'workload "x": duration is -1m; allowed are durations from 1ms to ten years'),
        ("topology: {required: zone}", 'workload "x": topology: required is zone; allowed are the levels of its pools: rack, node'),
        ("pool: two, topology: {preferred: rack}", 'workload "x": topology: preferred is rack; allowed are the levels of its pools: node'),
        ("topology: {need: rack}", 'workload "x": topology has the unknown key "need"; allowed are preferred, required'),
        ("depends_on: [y]", 'workload "x": depends_on names the unknown workload "y"; known are x'),
        ("depends_on: [x]", 'workload "x": depends_on is [x]; x is the workload itself: allowed are others'),
        ("held: yes", 'workload "x": held is yes; allowed are true and false'),
        ("tolerations: [1]", 'workload "x": tolerations has 1, a number; allowed is text, in quotes'),
        ("tolerations: [=v]", 'workload "x": tolerations is [=v]; allowed are "key" and "key=value"'),
        ("on_preemption: never", 'workload "x": on_preemption is never; allowed are requeue, stop'),
        ("preemptions: -1", 'workload "x": preemptions is -1; allowed are whole numbers from 0 to 1,000,000'),
        ("count: 2", 'workload "x": name is x; with a count the name needs "{i}", which becomes 0, 1, 2 and so on'),
    ],
)  # fmt: skip
def test_what_is_no_workload_is_refused(facts: str, sentence: str) -> None:
    error = refusal(text(f"name: x, team: a, {facts}", pools=TWO_POOLS))
    assert (error.line, error.message) == (5, sentence)


def test_workloads_that_wait_for_each_other_are_refused() -> None:
    facts = "team: a, depends_on:"
    error = refusal(text(f"name: x, {facts} [z]\nname: y, {facts} [x]\nname: z, {facts} [y]"))
    sentence = "x waits for z and z waits for y and y waits for x: none of them would ever start"
    assert (error.line, error.message) == (5, f'workload "x": depends_on is [z]; {sentence}')
    error = refusal(text(f"name: 'x{{i}}', count: 3, {facts} [y]\nname: y, {facts} [x2]"))
    assert "x0 waits for y and y waits for x0" in error.message


def test_workloads_may_wait_for_the_same_one_and_it_for_another() -> None:
    needs = {"a": ["b", "c"], "b": ["c"], "c": ["d"], "d": [], "e": ["a", "d", "f"]}
    assert first_circle(needs) == []
    assert first_circle({**needs, "d": ["b"]}) == ["b", "c", "d"]
    chain = {str(number): [str(number + 1)] for number in range(50_000)}
    assert first_circle(chain) == []


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("team: a", "a workload has no name; one is required"),
        ("name: x", 'workload "x" has no team; one is required'),
        ("name: x, team: b", 'workload "x": team names the unknown team "b"; known are a'),
    ],
)
def test_a_workload_needs_a_name_and_a_known_team(row: str, sentence: str) -> None:
    error = refusal(text(row))
    assert (error.line, error.message) == (5, sentence)


def test_an_unknown_key_is_refused() -> None:
    error = refusal(text("name: x, team: a, gpu: 1"))
    assert error.line == 5
    assert error.message.startswith(
        'a workload has the unknown key "gpu"; allowed are array, checkpointed, class, count, cpu, '
    )


def test_names_are_unique_also_those_made_from_a_template() -> None:
    error = refusal(text('name: x-1, team: a\nname: "x-{i}", count: 2, team: a'))
    assert (error.line, error.message) == (
        6,
        'the workload "x-1" is given twice, first in line 5; names are unique',
    )


def test_a_count_of_none_is_no_workload() -> None:
    assert loaded('name: "x-{i}", count: 0, team: a').snapshot.workloads == ()
    assert (
        len(loaded('name: "x-{i}", count: 0, team: a, depends_on: [y]\nname: y, team: a').snapshot.workloads)
        == 1
    )
