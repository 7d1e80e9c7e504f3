"""Slices in inventories: told apart from GPUs, held to their shares, and not used where an agent cannot tell."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from agentlink.assignments import add_pods
from agentlink.models import Cluster, Device, Hold, Placement
from agentlink.protocol import Desired, DeviceReport, NodeReport
from agentlink.tests.agents import Hand, admit, nodes
from agentlink.tests.conftest import Place
from agentlink.tests.test_inventory import take
from workloads.models import Attempt

MIG = "mig-1g.10gb"


def cut(index: int, share_milli: int = 143, **fields: Any) -> DeviceReport:
    return DeviceReport.model_validate(
        {"index": index, "gpu_type": MIG, "slicing": "mig", "share_milli": share_milli, **fields}
    )


def report(*devices: DeviceReport, **fields: object) -> NodeReport:
    return NodeReport.model_validate({"name": "n1", "devices": devices, **fields})


def untold(index: int, gpu_type: str = MIG) -> DeviceReport:
    """Return a slice as an agent tells it that knows of none."""
    return DeviceReport(index=index, gpu_type=gpu_type)


def device(cluster: Cluster, index: int = 0) -> Device:
    return Device.objects.get(node__cluster=cluster, node__name="n1", index=index)


def put(place: Place, index: int, share: int) -> Attempt:
    """Return an attempt with a pod on the device, which asked for one GPU, or for a part."""
    asked = share if share in {250, 500, 750} else 1000
    on = [device(place.cluster, index)]
    return admit(place.team, place.owner, place.pool, place.cluster, on, share=share, asked=asked)


def told(found: Device) -> tuple[str, int, bool]:
    return found.slicing, found.share_milli, found.foreign


def test_a_slice_is_stored_with_its_share(place: Place) -> None:
    replica = cut(2, 250, gpu_type="T4-SHARED", slicing="replicas")
    take(place.cluster, [report(DeviceReport(index=0, gpu_type="H100"), cut(1), replica)])
    assert told(device(place.cluster, 0)) == ("whole", 1000, False)
    assert told(device(place.cluster, 1)) == ("mig", 143, False)
    assert told(device(place.cluster, 2)) == ("replicas", 250, False)


@pytest.mark.parametrize(
    "values",
    [
        {"slicing": "whole", "share_milli": 143},
        {"slicing": "mig", "share_milli": 0},
        {"slicing": "half"},
    ],
)
def test_the_database_refuses_a_share_that_is_not_of_its_slicing(
    place: Place, values: dict[str, object]
) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Device.objects.filter(node__name="n1", index=0).update(**values)


@pytest.mark.parametrize("column", ["occupied_milli", "allocated_milli"])
@pytest.mark.parametrize("milli", [1, 142, 144, 286, 1000])
def test_the_database_holds_a_slice_whole_or_free(place: Place, column: str, milli: int) -> None:
    take(place.cluster, [report(cut(0))])
    with pytest.raises(IntegrityError), transaction.atomic():
        Device.objects.filter(node__name="n1", index=0).update(**{column: milli})
    Device.objects.filter(node__name="n1", index=0).update(**{column: 143})


def test_a_second_pod_on_a_slice_is_refused_by_the_database(place: Place) -> None:
    take(place.cluster, [report(cut(0))])
    put(place, 0, 143)
    with pytest.raises(IntegrityError), transaction.atomic():
        put(place, 0, 143)


def test_who_is_promised_a_slice_waits_until_it_is_free(place: Place) -> None:
    take(place.cluster, [report(cut(0))])
    first = put(place, 0, 143)
    Placement.objects.filter(attempt=first).update(hold=Hold.LEAVING)
    second = put(place, 0, 143)
    assert not second.assignment.let_go
    assert (device(place.cluster).occupied_milli, device(place.cluster).allocated_milli) == (143, 143)


def test_what_an_agent_without_the_field_names_as_a_slice_is_no_gpu_and_is_not_used(place: Place) -> None:
    labels = {"nvidia.com/gpu.replicas": "4"}
    whole = DeviceReport(index=0, gpu_type="H100")
    take(place.cluster, [report(whole, untold(1), untold(2, "T4-SHARED"), labels=labels)])
    assert told(device(place.cluster, 0)) == ("whole", 1000, False)
    assert told(device(place.cluster, 1)) == ("mig", 143, True)
    assert told(device(place.cluster, 2)) == ("replicas", 250, True)
    place.cluster.refresh_from_db()
    assert place.cluster.unclear_slices == 2


def test_an_agent_that_was_upgraded_brings_its_slices_into_use(place: Place) -> None:
    take(place.cluster, [report(untold(0))])
    take(place.cluster, [report(cut(0))], generation=2)
    assert told(device(place.cluster)) == ("mig", 143, False)
    place.cluster.refresh_from_db()
    assert place.cluster.unclear_slices == 0


def test_slices_are_counted_over_all_parts_of_an_inventory(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentlink.protocol.wire.INVENTORY_PART_BYTES", 400)
    many = [node.model_copy(update={"devices": (untold(0),)}) for node in nodes(9)]
    take(place.cluster, many)
    place.cluster.refresh_from_db()
    assert place.cluster.unclear_slices == 9


def test_who_has_a_slice_as_a_gpu_has_it_as_a_slice_when_the_agent_tells(place: Place) -> None:
    take(
        place.cluster,
        [report(DeviceReport(index=0, gpu_type="H100"), DeviceReport(index=1, gpu_type="H100"))],
    )
    attempt = put(place, 0, 1000)
    take(place.cluster, [report(cut(0), cut(1, 429))], generation=2)
    assert told(device(place.cluster)) == ("mig", 143, False)
    assert attempt.placements.get().share_milli == 143
    assert (device(place.cluster).occupied_milli, device(place.cluster).allocated_milli) == (143, 143)
    take(place.cluster, [report(cut(0, 429), cut(1, 429))], generation=3)
    assert (device(place.cluster).occupied_milli, attempt.placements.get().share_milli) == (429, 429)
    take(place.cluster, [report(DeviceReport(index=0, gpu_type="H100"))], generation=4)
    assert (device(place.cluster).occupied_milli, attempt.placements.get().share_milli) == (1000, 1000)


def test_a_gpu_that_pods_share_becomes_no_slice_before_they_are_gone(place: Place) -> None:
    take(place.cluster, [report(DeviceReport(index=0, gpu_type="H100"))])
    attempt = put(place, 0, 250)
    take(place.cluster, [report(cut(0))], generation=2)
    assert told(device(place.cluster)) == ("whole", 1000, True)
    attempt.placements.update(hold=Hold.RELEASED)
    take(place.cluster, [report(cut(0))], generation=3)
    assert told(device(place.cluster)) == ("mig", 143, False)


def test_a_pod_on_a_slice_is_sent_its_share(place: Place) -> None:
    take(place.cluster, [report(cut(0))])
    put(place, 0, 143)
    (message,) = [each for each in Hand(place.cluster).greeting.messages if isinstance(each, Desired)]
    (assignment,) = message.assignments
    assert [share.share_milli for pod in assignment.pods for share in pod.devices] == [143]


def test_more_pods_of_a_running_attempt_take_no_slice_that_somebody_leaves(place: Place) -> None:
    take(place.cluster, [report(cut(0), cut(1))])
    leaving, running = put(place, 0, 143), put(place, 1, 143)
    Placement.objects.filter(attempt=leaving).update(hold=Hold.LEAVING)
    with transaction.atomic():
        assert not add_pods(running.pk, [(5, device(place.cluster, 0).pk, 143)])
