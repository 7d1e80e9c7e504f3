"""What is kept of nodes and told of them, and what pods ask of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agentlink.agent.backends.native import devices
from agentlink.agent.backends.native.facts import PodFacts
from agentlink.agent.backends.native.nodes import LONG_AGO, Drain, read_node, report
from agentlink.agent.kube.quantities import asked, mebibytes, milli
from agentlink.protocol import NodeReport

PATTERNS = ("nvidia.com/gpu", "nvidia.com/mig-*")


def node(**parts: Any) -> dict[str, Any]:
    status = {
        "capacity": {"cpu": "96", "nvidia.com/gpu": "8"},
        "allocatable": {"cpu": "95500m", "memory": "1000Gi", "nvidia.com/gpu": "7"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata, spec = {"name": "n", **parts.pop("metadata", {})}, parts.pop("spec", {})
    return {"metadata": metadata, "spec": spec, "status": {**status, **parts}}


def told(body: dict[str, Any], *pods: PodFacts, partition_label: str = "pool") -> NodeReport:
    facts = read_node(body, PATTERNS)
    found = devices.of_plugin(facts.labels, facts.devices, PATTERNS)
    return report(facts, found, {7}, pods, partition_label=partition_label, sharing=False)


def other(cpu_milli: int, memory_mib: int) -> PodFacts:
    now = datetime.now(UTC)
    return PodFacts("ns", "p", "u", "", 0, now, cpu_milli=cpu_milli, memory_mib=memory_mib)


def test_a_node_is_told_with_what_others_leave_of_it() -> None:
    found = told(node(), other(500, 1024), other(1000, 0))
    assert (found.name, found.ready, found.cordoned) == ("n", True, False)
    assert (found.cpu_milli, found.memory_mib) == (94_000, 999 * 1024)
    assert [device.foreign for device in found.devices] == [False] * 7 + [True]
    assert told(node(), other(200_000, 0)).cpu_milli == 0


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "True"}], False),
    ],
)
def test_a_node_is_ready_only_when_it_says_so(conditions: list[Any], ready: bool) -> None:
    assert told(node(conditions=conditions)).ready is ready


def test_a_node_that_is_cordoned_or_going_takes_nothing_new() -> None:
    assert told(node(spec={"unschedulable": True})).cordoned
    assert told(node(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})).cordoned


def test_taints_that_keep_pods_out_are_told_as_kubectl_writes_them() -> None:
    taints = [
        {"key": "team", "value": "nlp", "effect": "NoSchedule"},
        {"key": "maintenance", "effect": "NoExecute"},
        {"key": "slow", "effect": "PreferNoSchedule"},
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
    ]
    assert told(node(spec={"taints": taints})).taints == (
        "maintenance:NoExecute",
        "node.kubernetes.io/disk-pressure:NoSchedule",
        "team=nlp:NoSchedule",
    )


def test_labels_are_told_but_for_those_that_are_of_no_use_here_and_one_may_be_the_partition() -> None:
    labels = {"pool": "a", "feature.node.kubernetes.io/cpu": "x", f"{'d' * 250}/name": "too-long"}
    found = told(node(metadata={"labels": labels}))
    assert (found.labels, found.partition) == ({"pool": "a"}, "a")
    assert told(node(metadata={"labels": labels}), partition_label="none").partition == ""


def test_slices_are_told_apart_from_gpus_with_the_share_that_they_count_as() -> None:
    capacity = {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-3g.40gb": "1"}
    found = told(node(capacity=capacity, allocatable=capacity))
    assert [(device.slicing, device.share_milli) for device in found.devices] == [
        ("whole", 1000),
        ("whole", 1000),
        ("mig", 143),
        ("mig", 429),
    ]


def test_replicas_are_told_as_such_and_need_no_toleration() -> None:
    labels = {"nvidia.com/gpu.product": "T4-SHARED", "nvidia.com/gpu.replicas": "4"}
    found = told(node(metadata={"labels": labels}))
    assert {(device.slicing, device.share_milli) for device in found.devices} == {("replicas", 250)}
    assert found.taints == ()


@pytest.mark.parametrize(
    ("quantity", "thousandths", "mib"),
    [("2", 2000, 0), ("1500m", 1500, 0), ("100u", 1, 0), ("2Gi", 2048 * 1024**2 * 1000, 2048), ("1G", 10**12, 953)],
)  # fmt: skip
def test_quantities_are_numbers(quantity: str, thousandths: int, mib: int) -> None:
    assert (milli(quantity), mebibytes(quantity)) == (thousandths, mib)


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": "1M"}}, **fields}


@pytest.mark.parametrize(
    ("spec", "cpu_milli", "memory_mib"),
    [
        ({"containers": [{}]}, 0, 0),
        ({"containers": [container("1"), container("250m")]}, 1250, 2),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3000, 1),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("3")],
            },
            5000,
            2,
        ),
        (
            {
                "containers": [container("4")],
                "initContainers": [container("2", restartPolicy="Always"), container("3")],
            },
            6000,
            2,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "100m"}}, 1100, 1),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "7"}}}, 7000, 1),
    ],
)
def test_a_pod_asks_for_what_its_containers_need_at_once(
    spec: dict[str, Any], cpu_milli: int, memory_mib: int
) -> None:
    assert asked(spec) == (cpu_milli, memory_mib)


@pytest.mark.parametrize(
    ("elastic", "reserved", "drain"),
    [
        (None, None, None),
        ("now", None, Drain(LONG_AGO, None)),
        (None, "2026-11-23T18:00:00+01:00", Drain(LONG_AGO, datetime(2026, 11, 23, 17, tzinfo=UTC))),
        ("2026-11-23T18:00:00Z", "now", Drain(datetime(2026, 11, 23, 18, tzinfo=UTC), LONG_AGO)),
    ],
)
def test_a_node_that_is_to_be_drained_takes_nothing_new(
    elastic: str | None, reserved: str | None, drain: Drain | None
) -> None:
    said = {"chamber.internal/drain-elastic-at": elastic, "chamber.internal/drain-reserved-at": reserved}
    annotations = {key: text for key, text in said.items() if text is not None}
    facts = read_node({"metadata": {"name": "n", "annotations": annotations}}, PATTERNS)
    assert (facts.drain, facts.cordoned) == (drain, drain is not None)
    told = report(facts, [], set(), [], partition_label="", sharing=True)
    assert (told.cordoned, told.drained) == (drain is not None, drain is not None)
    cordoned = read_node({"metadata": {"name": "n"}, "spec": {"unschedulable": True}}, PATTERNS)
    assert not report(cordoned, [], set(), [], partition_label="", sharing=True).drained


UNREADABLE = ("drain-elastic-at", "drain-reserved-at")


@pytest.mark.parametrize(
    ("said", "quoted", "work"),
    [
        ({"drain-elastic-at": "tomorrow", "drain-reserved-at": "now"}, "'tomorrow'", "elastic"),
        ({"drain-reserved-at": "2026-11-23T18:00:00"}, "'2026-11-23T18:00:00'", "reserved"),  # without a zone
        ({"drain-elastic-at": "", "drain-reserved-at": "now"}, "''", "elastic"),
        (dict.fromkeys(UNREADABLE, "\U000e0001" * 100), "'" + r"\U000e0001" * 9 + r"\U000e0…'", "reserved"),
        (dict.fromkeys(UNREADABLE, "\x00" * 100), "'" + r"\x00" * 24 + "\\…'", "elastic"),
    ],
)
def test_a_drain_that_cannot_be_read_is_told_with_what_it_says(
    said: dict[str, str], quoted: str, work: str
) -> None:
    annotations = {f"chamber.internal/{key}": text for key, text in said.items()}
    body = node(metadata={"name": "n1", "annotations": annotations})
    facts = read_node(body, PATTERNS)
    assert facts.drain is not None
    assert getattr(facts.drain, f"{work}_at") is None
    problem = told(body).problem
    assert f"chamber.internal/drain-{work}-at says {quoted}, which is no time, so {work} work" in problem
    assert problem.endswith("Write now, or a time with its zone, such as 2026-12-01T18:00:00Z.")
    assert facts.cordoned  # somebody wants it to be left


@pytest.mark.parametrize(
    ("spec", "fields", "who"),
    [
        ({}, (), None),
        ({"unschedulable": True}, (), "cordoned"),
        ({"unschedulable": True}, ({"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},),
         "cordoned by kubectl-cordon"),
        ({"unschedulable": True}, ({"manager": "kubelet", "fieldsV1": {"f:status": {}}},), "cordoned"),
        ({"unschedulable": True, "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}, (),
         "by Karpenter"),
        ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}, (),
         "by the Cluster Autoscaler"),
        ({"taints": [{"key": "maintenance", "effect": "NoExecute"}]}, (), "taint maintenance"),
        ({"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}, (), None),
        ({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}, (), None),
    ],
)  # fmt: skip
def test_a_node_says_who_empties_it(spec: dict[str, Any], fields: tuple[Any, ...], who: str | None) -> None:
    body = {"metadata": {"name": "n", "managedFields": list(fields)}, "spec": spec}
    assert read_node(body, PATTERNS).emptied_by == who
