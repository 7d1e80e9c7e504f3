"""Inventories: nodes appear, change, vanish and come back; what lies on them stays."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentlink import inventory, protocol
from agentlink.models import Cluster, Device, Node
from agentlink.protocol import DeviceReport, Inventory, NodeReport
from agentlink.tests.agents import admit, devices_of, nodes
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from chamber.ids import new_id
from teams.models import Pool
from teams.tests.factories import make_pool

pytestmark = pytest.mark.django_db


def take(cluster: Cluster, found: list[NodeReport], *, generation: int = 1) -> None:
    for part in protocol.inventory_in_parts(found, generation=generation):
        assert inventory.take(cluster.pk, part, connection=cluster.connection)


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


def test_a_pool_that_was_made_while_an_inventory_was_written_is_seen_by_the_next() -> None:
    cluster = make_cluster()
    take(cluster, labelled("a"))
    pool = make_pool("A", order=1, node_selector={"pool": "a"})
    take(cluster, labelled("a"), generation=2)
    assert Node.objects.get().pool == pool


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
    [("ready", False), ("cordoned", True), ("drained", True), ("cpu_milli", 4000), ("memory_mib", 512),
     ("labels", {"zone": "b"}), ("taints", ("a=b:NoSchedule",)), ("partition", "big"), ("sharing", False)],
)  # fmt: skip
def test_what_a_node_reports_is_stored(place: Place, field: str, value: object) -> None:
    take(place.cluster, [node.model_copy(update={field: value}) for node in nodes(1)])
    stored = getattr(Node.objects.get(name="n1"), field)
    if field == "labels":
        assert stored.pop("chamber.internal/cluster") == "east"
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


def test_the_same_inventory_again_writes_no_node_and_no_device(place: Place) -> None:
    take(place.cluster, nodes(2), generation=1)
    with CaptureQueriesContext(connection) as queries:
        take(place.cluster, nodes(2), generation=2)
    written = [query["sql"] for query in queries if query["sql"].startswith(("UPDATE", "INSERT"))]
    assert ["agentlink_cluster" in sql for sql in written] == [True]


def test_the_number_of_queries_does_not_depend_on_the_number_of_nodes(place: Place) -> None:
    counts = []
    for generation, count in enumerate((1, 20), start=1):
        (part,) = protocol.inventory_in_parts(
            nodes(count, name=f"q{generation}-", gpus=2), generation=generation
        )
        with CaptureQueriesContext(connection) as queries:
            assert inventory.take(place.cluster.pk, part, connection=None)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_of_nodes_reported_as_before_neither_columns_nor_devices_are_read(place: Place) -> None:
    take(place.cluster, nodes(3))
    with CaptureQueriesContext(connection) as queries:
        take(place.cluster, nodes(3), generation=2)
    assert not [query["sql"] for query in queries if "labels" in query["sql"] or "device" in query["sql"]]


def test_a_cluster_that_is_called_otherwise_has_its_nodes_bear_the_new_name() -> None:
    cluster = make_cluster()
    take(cluster, nodes(1))
    Cluster.objects.filter(pk=cluster.pk).update(name="renamed")
    take(cluster, nodes(1), generation=2)
    assert Node.objects.get().labels["chamber.internal/cluster"] == "renamed"


def test_a_part_speaks_for_names_by_code_points_whatever_language_the_database_sorts_by() -> None:
    cluster = make_cluster()
    found = [NodeReport(name=name) for name in ("B", "a-c", "a.b", "ab", "b")]
    take(cluster, found)
    for part, node in enumerate(found):
        message = Inventory(generation=2, part=part, last=part == len(found) - 1, nodes=(node,))
        assert inventory.take(cluster.pk, message, connection=cluster.connection)
        assert Node.objects.filter(gone_at=None).count() == len(found)


def test_a_late_inventory_does_not_take_back_a_newer_one(place: Place) -> None:
    take(place.cluster, nodes(2, cordoned=True), generation=3)
    take(place.cluster, nodes(1), generation=2)
    assert list(Node.objects.values_list("cordoned", "gone_at")) == [(True, None)] * 2


def test_every_part_may_come_twice_and_of_an_older_conversation_it_changes_nothing(place: Place) -> None:
    first = Inventory(generation=1, part=0, last=False, nodes=tuple(nodes(1)))
    second = Inventory(generation=1, part=1, last=True, nodes=tuple(nodes(1, name="z")))
    for part in (first, first, second, first, second):
        assert inventory.take(place.cluster.pk, part, connection=None)
    assert set(Node.objects.filter(gone_at=None).values_list("name", flat=True)) == {"n1", "z1"}
    other = Inventory(generation=9, part=0, last=True, nodes=())
    assert inventory.take(place.cluster.pk, other, connection=new_id())
    assert Node.objects.filter(gone_at=None).count() == 2


def test_each_part_makes_gone_what_its_range_of_names_lacks(place: Place) -> None:
    take(place.cluster, nodes(9))
    found = nodes(9)
    first = Inventory(generation=2, part=0, last=False, nodes=tuple(found[index] for index in (0, 2, 4)))
    assert inventory.take(place.cluster.pk, first, connection=None)
    gone = Node.objects.exclude(gone_at=None)
    assert set(gone.values_list("name", flat=True)) == {"n2", "n4"}
    overlapping = Inventory(generation=2, part=1, last=True, nodes=tuple(found[2:4]))
    assert not inventory.take(place.cluster.pk, overlapping, connection=None)


def test_a_part_that_does_not_follow_is_asked_for_again() -> None:
    cluster = make_cluster()
    first = Inventory(generation=1, part=0, last=False, nodes=tuple(nodes(1)))
    third = Inventory(generation=1, part=2, last=True, nodes=())
    other = Inventory(generation=2, part=1, last=True, nodes=())
    assert inventory.take(cluster.pk, first, connection=None)
    assert not inventory.take(cluster.pk, third, connection=None)
    assert not inventory.take(cluster.pk, other, connection=None)
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


def test_a_node_bears_the_name_of_its_cluster_whatever_it_says_itself(place: Place) -> None:
    Pool.objects.update(node_selector={"chamber.internal/cluster": "east"})
    take(place.cluster, nodes(1, labels={"chamber.internal/cluster": "west"}))
    node = Node.objects.select_related("pool").get(name="n1")
    assert (node.labels["chamber.internal/cluster"], node.pool) == ("east", place.pool)
