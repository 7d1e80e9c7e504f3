"""Where attempts lie: promised, held, leaving, released, and what the database refuses."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agentlink import assignments
from agentlink.models import Assignment, Cluster, Device, Hold, Placement
from agentlink.tests.agents import SCHEDULER, admit, cancel, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from agentlink.tests.factories import place as put
from chamber.ids import new_id
from workloads import lifecycle
from workloads.lifecycle import status
from workloads.models import Attempt, Event, EventKind, Workload
from workloads.tests.factories import admit as admit_only
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db


def start(place: Place, *devices: Device, share: int = 1000) -> Attempt:
    return admit(place.team, place.owner, place.pool, place.cluster, devices, share=share)


def holds(attempt: Attempt) -> set[str]:
    return set(Placement.objects.filter(attempt=attempt).values_list("hold", flat=True))


def gone(attempt: Attempt) -> None:
    with transaction.atomic():
        assignments.release([attempt.pk], at=timezone.now(), by=SCHEDULER)


def let_go(place: Place) -> set[UUID]:
    return assignments.let_go_waiting(place.cluster.pk, at=timezone.now())


def test_on_free_devices_an_attempt_is_let_go_at_once(place: Place) -> None:
    before = place.cluster.desired_generation
    attempt = start(place, *devices_of(place.cluster, "n1")[:2])
    row = Assignment.objects.get(attempt=attempt)
    assert (row.let_go, row.wanted, row.generation) == (True, True, before + 1)
    assert holds(attempt) == {Hold.HELD}
    assert Cluster.objects.get().desired_generation == before + 1


def test_behind_somebody_who_leaves_an_attempt_waits_on_all_its_devices(place: Place) -> None:
    first, second, *_ = devices_of(place.cluster, "n1")
    old = start(place, first)
    cancel(old)
    assert holds(old) == {Hold.LEAVING}
    new = start(place, first, second)
    assert holds(new) == {Hold.PROMISED}
    assert let_go(place) == set()
    gone(old)
    assert let_go(place) == {new.pk}
    assert holds(new) == {Hold.HELD}
    assert holds(old) == {Hold.RELEASED}
    assert Event.objects.filter(workload=new.workload, kind=EventKind.LET_GO).count() == 1
    assert let_go(place) == set()


def test_of_two_who_wait_for_parts_of_a_device_the_one_who_fits_goes_first(place: Place) -> None:
    device = devices_of(place.cluster, "n1")[0]
    leaving = [start(place, device, share=500) for _ in range(2)]
    for attempt in leaving:
        cancel(attempt)
    waiting = [start(place, device, share=500) for _ in range(2)]
    gone(leaving[0])
    assert let_go(place) == {waiting[0].pk}
    gone(leaving[1])
    assert let_go(place) == {waiting[1].pk}


def test_an_attempt_waits_for_the_pods_of_the_one_before_it_in_another_cluster(place: Place) -> None:
    west = make_cluster("west")
    make_node(west, "w1", pool=place.pool)
    old = start(place, devices_of(place.cluster, "n1")[0])
    with transaction.atomic():
        lifecycle.cancel_many([old.workload_id], by=SCHEDULER, at=timezone.now())
        lifecycle.requeue_many([old.workload_id], by=SCHEDULER, at=timezone.now())
    again = Workload.objects.get(pk=old.workload_id)
    new = admit(place.team, place.owner, place.pool, west, devices_of(west, "w1")[:1], workload=again)
    assert holds(new) == {Hold.PROMISED}
    assert assignments.let_go_waiting(west.pk, at=timezone.now()) == set()
    with transaction.atomic():
        freed = assignments.release([old.pk], at=timezone.now(), by=SCHEDULER)
    assert freed == {place.cluster.pk, west.pk}
    assert assignments.let_go_waiting(west.pk, at=timezone.now()) == {new.pk}


def test_who_may_be_let_go_only_since_the_others_were_locked_waits_for_the_next_look(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    west = make_cluster("west")
    node = make_node(west, "w1", pool=place.pool, gpus=2)
    first, second = Device.objects.filter(node=node)
    elsewhere = start(place, devices_of(place.cluster, "n1")[0])
    cancel(elsewhere)
    with transaction.atomic():
        lifecycle.requeue_many([elsewhere.workload_id], by=SCHEDULER, at=timezone.now())
    again = Workload.objects.get(pk=elsewhere.workload_id)
    cancel(admit(place.team, place.owner, place.pool, west, [first]))
    admit(place.team, place.owner, place.pool, west, [first])
    comes = admit(place.team, place.owner, place.pool, west, [second], workload=again)

    def lock(ids: Iterable[UUID]) -> dict[UUID, Workload]:
        rows = status.lock(ids)
        gone(elsewhere)
        return rows

    monkeypatch.setattr(assignments, "lock", lock)
    assert assignments.let_go_waiting(west.pk, at=timezone.now()) == set()
    assert assignments.let_go_waiting(west.pk, at=timezone.now()) == {comes.pk}


def test_who_was_never_let_go_is_released_at_once(place: Place) -> None:
    device = devices_of(place.cluster, "n1")[0]
    old = start(place, device)
    cancel(old)
    new = start(place, device)
    cancel(new)
    assert holds(new) == {Hold.RELEASED}
    new.refresh_from_db()
    assert new.released_at is not None
    row = Assignment.objects.get(attempt=new)
    assert (row.wanted, row.gone) == (False, True)
    old.refresh_from_db()
    assert old.released_at is None


def test_stopping_twice_changes_nothing_the_second_time(place: Place) -> None:
    attempt = start(place, devices_of(place.cluster, "n1")[0])
    cancel(attempt)
    before = Assignment.objects.values().get()
    assignments.stop([attempt.pk], at=timezone.now())
    assert Assignment.objects.values().get() == before


def test_what_is_not_over_is_not_released(place: Place) -> None:
    attempt = start(place, devices_of(place.cluster, "n1")[0])
    gone(attempt)
    assert holds(attempt) == {Hold.HELD}


def test_a_plan_that_allocates_a_device_twice_is_refused_whole(place: Place) -> None:
    device, other, *_ = devices_of(place.cluster, "n1")
    start(place, device, share=750)
    workloads = [make_workload(place.team, place.owner) for _ in range(2)]
    attempts = [admit_only(workload, place.pool) for workload in workloads]
    items = [
        assignments.NewAssignment(attempts[0].pk, place.cluster.pk, [(0, other.pk, 1000)]),
        assignments.NewAssignment(attempts[1].pk, place.cluster.pk, [(0, device.pk, 500)]),
    ]
    with pytest.raises(IntegrityError), transaction.atomic():
        assignments.assign_many(items)
    assert Assignment.objects.count() == 1
    other.refresh_from_db()
    assert other.allocated_milli == 0


def test_the_number_of_queries_does_not_depend_on_the_number_of_attempts(
    place: Place, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    devices = [*devices_of(place.cluster, "n1"), *devices_of(place.cluster, "n2")]
    attempts = [admit_only(make_workload(place.team, place.owner), place.pool) for _ in devices]
    items = [
        assignments.NewAssignment(attempt.pk, place.cluster.pk, [(0, device.pk, 1000)])
        for attempt, device in zip(attempts, devices, strict=True)
    ]
    with django_assert_num_queries(6):
        assignments.assign_many(items[:1])
    with django_assert_num_queries(6):
        assignments.assign_many(items[1:])


def test_a_gang_that_grows_has_more_pods_in_its_assignment(place: Place) -> None:
    first, second, third, _ = devices_of(place.cluster, "n1")
    attempt = start(place, first)
    before = Assignment.objects.get(attempt=attempt).generation
    assert assignments.add_pods(attempt.pk, [(1, second.pk, 1000), (2, third.pk, 1000)])
    assert Assignment.objects.get(attempt=attempt).generation > before
    assert Placement.objects.filter(attempt=attempt, hold=Hold.HELD).count() == 3
    with pytest.raises(IntegrityError), transaction.atomic():
        assignments.add_pods(start(place).pk, [(0, second.pk, 250)])


def test_a_gang_that_shrinks_keeps_the_devices_until_its_pods_are_gone(place: Place) -> None:
    first, second, *_ = devices_of(place.cluster, "n1")
    attempt = start(place, first, second)
    assert assignments.remove_pods(attempt.pk, [1])
    assert dict(Placement.objects.values_list("pod_index", "hold")) == {0: Hold.HELD, 1: Hold.LEAVING}
    assert not assignments.add_pods(attempt.pk, [(1, second.pk, 1000)])
    cancel(attempt)
    assert not assignments.add_pods(attempt.pk, [(2, second.pk, 1000)])
    assert not assignments.remove_pods(attempt.pk, [0])


def test_a_gang_grows_beside_pods_that_are_leaving_and_not_onto_them(place: Place) -> None:
    first, second, third, _ = devices_of(place.cluster, "n1")
    attempt = start(place, first)
    cancel(start(place, second))
    cancel(start(place, third, share=250))
    assert not assignments.add_pods(attempt.pk, [(1, second.pk, 250), (2, third.pk, 250)])
    assert not assignments.add_pods(attempt.pk, [(1, third.pk, 500), (2, third.pk, 500)])
    assert assignments.add_pods(attempt.pk, [(1, third.pk, 500), (2, third.pk, 250)])


@pytest.mark.parametrize(
    ("holds", "refused"),
    [
        ((Hold.HELD, Hold.HELD), True),
        ((Hold.HELD, Hold.LEAVING), True),
        ((Hold.PROMISED, Hold.HELD), True),
        ((Hold.PROMISED, Hold.PROMISED), True),
        ((Hold.LEAVING, Hold.LEAVING), True),
        ((Hold.LEAVING, Hold.PROMISED), False),
        ((Hold.RELEASED, Hold.HELD), False),
    ],
)
def test_raw_sql_that_fills_a_device_beyond_itself_fails(
    place: Place, holds: tuple[Hold, Hold], refused: bool
) -> None:
    node = place.cluster.nodes.get(name="n1")
    attempts = [admit_only(make_workload(place.team, place.owner), place.pool) for _ in range(2)]
    put(attempts[0], node, 0, share=750, hold=holds[0])
    device = devices_of(place.cluster, "n1")[0]

    def insert() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO agentlink_placement (id, attempt_id, pod_index, device_id, share_milli, hold, created_at) "
                "VALUES (%s, %s, 0, %s, 500, %s, %s)",
                [new_id().hex, attempts[1].pk.hex, device.pk.hex, holds[1], timezone.now()],
            )

    if refused:
        with pytest.raises(IntegrityError):
            insert()
    else:
        insert()


def test_one_statement_moves_the_counters_of_all_its_devices_by_all_its_placements(place: Place) -> None:
    first, second = devices_of(place.cluster, "n1")[:2]
    node = place.cluster.nodes.get(name="n1")
    for index, share in ((0, 250), (0, 500), (1, 1000)):
        put(
            admit_only(make_workload(place.team, place.owner), place.pool),
            node,
            index,
            share=share,
            hold=Hold.HELD,
        )
    Placement.objects.update(hold=Hold.LEAVING)
    Placement.objects.filter(share_milli=500).update(hold=Hold.RELEASED)
    counted = Device.objects.filter(pk__in=[first.pk, second.pk]).order_by("index")
    assert list(counted.values_list("occupied_milli", "allocated_milli")) == [(250, 0), (1000, 0)]
    Placement.objects.filter(hold=Hold.LEAVING).update(hold=Hold.HELD)
    assert list(counted.values_list("occupied_milli", "allocated_milli")) == [(250, 250), (1000, 1000)]
    Placement.objects.all().delete()
    assert list(counted.values_list("occupied_milli", "allocated_milli")) == [(0, 0), (0, 0)]


def test_raw_sql_that_changes_a_placement_is_refereed_too(place: Place) -> None:
    device = devices_of(place.cluster, "n1")[0]
    old, new = start(place, device), None
    cancel(old)
    new = start(place, device)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE agentlink_placement SET hold = 'held' WHERE attempt_id = %s", [new.pk.hex])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE agentlink_placement SET hold = 'released' WHERE attempt_id = %s", [old.pk.hex])
        cursor.execute("UPDATE agentlink_placement SET hold = 'held' WHERE attempt_id = %s", [new.pk.hex])
        cursor.execute("DELETE FROM agentlink_placement WHERE attempt_id = %s", [new.pk.hex])
    device.refresh_from_db()
    assert (device.occupied_milli, device.allocated_milli) == (0, 0)


def test_who_finds_no_room_takes_none_of_it(place: Place) -> None:
    first, second, *_ = devices_of(place.cluster, "n1")
    room = assignments._DevicesLeft([first.pk, second.pk])

    assert room.take([(0, second.pk, 600)])
    assert not room.take([(0, first.pk, 700), (1, first.pk, 300), (2, second.pk, 500)])
    assert not room.take([(0, first.pk, 700), (1, new_id(), 100)])
    assert room.take([(0, first.pk, 1000), (1, second.pk, 400)])
