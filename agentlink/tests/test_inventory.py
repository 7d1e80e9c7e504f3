"""Inventories: nodes appear, change, vanish and come back; what lies on them stays."""

import pytest

from agentlink import inventory, protocol
from agentlink.models import Cluster, Device, Node
from agentlink.protocol import DeviceReport, Inventory, NodeReport
from agentlink.tests.agents import admit, devices_of, nodes
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from teams.models import Pool
from teams.tests.factories import make_pool

pytestmark = pytest.mark.django_db


def take(cluster: Cluster, found: list[NodeReport], *, generation: int = 1) -> None:
    for part in protocol.inventory_in_parts(found, generation=generation):
        assert inventory.take(cluster.pk, part)


def labelled(pool: str) -> list[NodeReport]:
    return nodes(1, labels={"pool": pool})


def test_a_node_belongs_to_the_first_pool_in_order_that_picks_it() -> None:
    late = make_pool("Late", order=2)
    early = make_pool("Early", order=1, node_selector={"pool": "early"})
    cluster = make_cluster()
    take(cluster, [*labelled("early"), *nodes(1, name="other")])
    assert Node.objects.get(name="n1").pool == early
    assert Node.objects.get(name="other1").pool == late


def test_pools_that_changed_take_their_nodes_anew() -> None:
    cluster = make_cluster()
    take(cluster, labelled("a"))
    assert Node.objects.get().pool is None
    pool = make_pool("A", order=1, node_selector={"pool": "a"})
    assert inventory.reassign_pools() == 1
    assert inventory.reassign_pools() == 0
    assert Node.objects.get().pool == pool
    Pool.objects.filter(pk=pool.pk).update(node_selector={"pool": "b"})
    assert inventory.reassign_pools() == 1
    assert Node.objects.get().pool is None


def test_a_node_that_is_not_reported_is_gone_and_keeps_what_is_on_it(place: Place) -> None:
    take(place.cluster, nodes(2))
    attempt = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    take(place.cluster, nodes(2)[1:], generation=2)
    node = Node.objects.get(name="n1")
    assert node.gone_at is not None
    assert not node.ready
    assert attempt.placements.get().device.occupied_milli == 1000
    take(place.cluster, nodes(2), generation=3)
    assert Node.objects.filter(name="n1", gone_at__isnull=True, ready=True).exists()


def test_a_device_that_vanishes_or_changes_while_in_use_keeps_what_is_on_it(place: Place) -> None:
    admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:2])
    changed = NodeReport(name="n1", devices=(DeviceReport(index=0, gpu_type="A100", memory_mib=40960),))
    take(place.cluster, [changed])
    found = {device.index: device for device in devices_of(place.cluster, "n1")}
    assert (found[0].gpu_type, found[0].memory_mib, found[0].foreign) == ("A100", 40960, False)
    assert found[1].foreign
    assert (found[0].occupied_milli, found[1].occupied_milli) == (1000, 1000)


@pytest.mark.parametrize(
    ("field", "value"),
    [("ready", False), ("cordoned", True), ("cpu_milli", 4000), ("memory_mib", 512), ("labels", {"zone": "b"}),
     ("taints", ("a=b:NoSchedule",)), ("partition", "big"), ("sharing", False)],
)  # fmt: skip
def test_what_a_node_reports_is_stored(place: Place, field: str, value: object) -> None:
    take(place.cluster, [node.model_copy(update={field: value}) for node in nodes(1)])
    stored = getattr(Node.objects.get(name="n1"), field)
    assert (tuple(stored) if isinstance(value, tuple) else stored) == value


def test_the_same_inventory_again_changes_and_announces_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(place.cluster, nodes(2))
    announced: list[str] = []
    monkeypatch.setattr("chamber.live.announce", lambda *topics: announced.extend(topics))
    rows = Device.objects.values(
        "node__labels", "node__pool", "node__ready", "node__gone_at", "gpu_type", "foreign"
    )
    before = list(rows.order_by("pk"))
    take(place.cluster, nodes(2), generation=2)
    assert list(rows.order_by("pk")) == before
    assert announced == []


def test_a_part_that_does_not_follow_is_asked_for_again() -> None:
    cluster = make_cluster()
    first = Inventory(generation=1, part=0, last=False, nodes=tuple(nodes(1)))
    third = Inventory(generation=1, part=2, last=True, nodes=())
    other = Inventory(generation=2, part=1, last=True, nodes=())
    assert inventory.take(cluster.pk, first)
    assert not inventory.take(cluster.pk, third)
    assert not inventory.take(cluster.pk, other)
    assert Node.objects.get().gone_at is None


def test_another_clusters_node_of_the_same_name_is_another_node(place: Place) -> None:
    west = make_cluster("west")
    take(west, nodes(1))
    take(place.cluster, [], generation=9)
    assert Node.objects.filter(name="n1", gone_at__isnull=True).get().cluster == west


def test_ten_thousand_nodes_are_taken_in_parts_and_one_that_vanishes_is_found() -> None:
    cluster = make_cluster()
    make_pool("Main")
    many = nodes(10_000, gpus=1, labels={"rack": "r" * 60})
    take(cluster, many)
    assert Node.objects.filter(pool__isnull=False).count() == Device.objects.count() == 10_000
    take(cluster, many[1:], generation=2)
    assert Node.objects.get(gone_at__isnull=False).name == "n1"
