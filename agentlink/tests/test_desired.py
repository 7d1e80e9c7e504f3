"""What a cluster is told to run, at the bounds of what somebody may submit."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink import desired, protocol
from agentlink.models import Assignment, Cluster
from agentlink.protocol import Desired
from agentlink.protocol.releases import fitted
from agentlink.tests.agents import SCHEDULER, Hand, admit, cancel, devices_of
from agentlink.tests.conftest import Place
from chamber.ids import new_id
from workloads import lifecycle
from workloads.attempt_tokens import attempt_in
from workloads.models import Attempt, AttemptNotes, Status, Workload
from workloads.requests import MOST_CHARACTERS, SubmissionRequest
from workloads.to_run import MOST_TO_RUN_BYTES

pytestmark = pytest.mark.django_db


def test_the_largest_submission_can_be_told_to_the_agent(place: Place) -> None:
    arguments = ["x" * MOST_CHARACTERS] * (MOST_TO_RUN_BYTES // MOST_CHARACTERS - 1)
    request = SubmissionRequest.parse(
        {
            "name": "n" * 100,
            "team": place.team.slug,
            "image": "i" * 300,
            "command": arguments,
            "environment": {"A" * 300: "\x01" * 5000},
        }
    )
    attempt = admit(place.team, place.owner, place.pool, place.cluster, [devices_of(place.cluster, "n1")[0]])
    Workload.objects.filter(pk=attempt.workload_id).update(
        image=request.image, command=request.command, environment=request.environment
    )

    (message,) = desired.full_set(place.cluster.pk, new_id())

    told = protocol.from_server(protocol.encode(message))
    assert isinstance(told, protocol.Desired)
    assert told.assignments[0].command == tuple(arguments)


POISON = {
    "a value that is no text": {"environment": {"A": 7}},
    "an argument beyond the protocol": {"command": ["x" * 70_000]},
    "more than a message holds": {"command": ["x" * 60_000] * 12},
}


def start(place: Place, index: int) -> Attempt:
    return admit(place.team, place.owner, place.pool, place.cluster, [devices_of(place.cluster, "n1")[index]])


@pytest.mark.parametrize("change", POISON.values(), ids=POISON.keys())
def test_what_cannot_be_told_keeps_nobody_else_from_being_told(
    place: Place, change: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    poisoned, well = start(place, 0), start(place, 1)
    Workload.objects.filter(pk=poisoned.workload_id).update(**change)

    full, delta = Hand(place.cluster).greeting.messages

    assert isinstance(full, Desired)
    assert isinstance(delta, Desired)
    assert [assignment.attempt for assignment in full.assignments] == [well.pk]
    assert [order.attempt for order in delta.stop] == [poisoned.pk]
    workload = Workload.objects.get(pk=poisoned.workload_id)
    assert workload.status == Status.PENDING
    assert workload.backoff_until is not None
    poisoned.refresh_from_db()
    assert "cannot be written as a message" in poisoned.end_detail["message"]
    assert Cluster.objects.get().rejected_messages == 1
    assert f"Attempt {poisoned.pk} cannot be told" in caplog.text


def test_what_runs_and_cannot_be_told_any_more_ends_with_that_reason(place: Place) -> None:
    attempt = start(place, 0)
    Workload.objects.filter(pk=attempt.workload_id).update(status=Status.STARTING)
    Workload.objects.filter(pk=attempt.workload_id).update(status=Status.RUNNING, command=[7])
    full, delta = Hand(place.cluster).greeting.messages
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert (workload.status, workload.reason_code) == (Status.FAILED, "cannot-be-told")
    assert isinstance(full, Desired)
    assert isinstance(delta, Desired)
    assert full.assignments == ()
    assert [order.attempt for order in delta.stop] == [attempt.pk]


def test_what_cannot_even_be_ended_is_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned, well = start(place, 0), start(place, 1)
    Workload.objects.filter(pk=poisoned.workload_id).update(command=[7])

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("workloads.lifecycle.refuse_many", fail)
    (full,) = desired.full_set(place.cluster.pk, new_id())
    assert [assignment.attempt for assignment in full.assignments] == [well.pk]
    assert Assignment.objects.filter(wanted=True).count() == 2


def test_a_gang_of_thousands_of_eight_gpu_pods_comes_in_parts_within_the_bound(place: Place) -> None:
    shares = tuple(protocol.AssignedShare(index=index, share_milli=1000) for index in range(8))
    pods = tuple(protocol.AssignedPod(index=i, node="n" * 253, devices=shares) for i in range(4000))
    large = protocol.DesiredAttempt(
        workload=new_id(), slug="w", attempt=new_id(), number=1, pods=pods, let_go=True, image="i", grace_seconds=1
    )  # fmt: skip
    protocol.check_size(large)
    parts = list(
        protocol.desired_in_parts(
            connection=new_id(), generation=1, base=None, assignments=[large], stop=[], forget=[new_id()] * 2000
        )
    )  # fmt: skip
    assert max(len(protocol.encode(part).encode()) for part in parts) <= protocol.MAX_BYTES
    assert sum(len(piece.pods) for part in parts for piece in part.assignments) == 4000


LATER = {
    "name",
    "owner",
    "job_class",
    "least_pods",
    "labels",
    "annotations",
    "shm_mib",
    "reserved",
    "read_notes",
    "notes_url",
    "notes_token",
    "resumed_from",
    "working_dir",
    "scratch_mib",
    "mounts",
}


def test_an_agent_is_told_of_an_assignment_only_what_it_knows(place: Place) -> None:
    attempt = start(place, 0)
    Workload.objects.filter(pk=attempt.workload_id).update(
        name="Mine",
        labels={"a": "b"},
        annotations={"c": "d"},
        shm_mib=7,
        job_class="training",
        priority=100,
        read_notes=True,
        working_dir="/workspace",
        scratch_mib=9,
    )
    told = desired.full_set(place.cluster.pk, new_id())
    [new] = told[0].assignments
    [old] = fitted(told, "0.1.0")[0].assignments

    assert not LATER & old.model_dump(exclude_defaults=True).keys()
    assert (new.name, new.owner, new.job_class, new.least_pods) == ("Mine", "ada", "training", 1)
    assert (new.labels, new.annotations, new.shm_mib, new.reserved) == ({"a": "b"}, {"c": "d"}, 7, True)
    assert (new.working_dir, new.scratch_mib) == ("/workspace", 9)
    assert (new.read_notes, new.notes_url, new.notes_token, new.resumed_from) == (True, "", "", None)
    assert old == new.model_copy(
        update={name: protocol.DesiredAttempt.model_fields[name].default for name in LATER}
    )


def test_pods_are_told_where_to_say_what_they_saved_where_they_reach_the_server(
    place: Place, settings: Settings
) -> None:
    settings.POD_URL = "https://chamber.example.org"
    attempt = start(place, 0)
    [told] = desired.full_set(place.cluster.pk, new_id())[0].assignments
    assert told.notes_url == f"https://chamber.example.org/api/v1/attempts/{attempt.pk}/notes/"
    assert attempt_in(told.notes_token) == attempt.pk
    assert told.notes_token not in repr(told)


def test_a_later_attempt_is_told_the_last_step_that_was_saved_before_it(place: Place) -> None:
    first = start(place, 0)
    AttemptNotes.objects.create(attempt=first, step=700)
    with transaction.atomic():
        preemption = lifecycle.PreemptionOrder(
            workload_id=first.workload_id, version=Workload.objects.get(pk=first.workload_id).version,
            message="Preempted.", rule="reclaim", level="",
        )  # fmt: skip
        lifecycle.preempt_many([preemption], by=SCHEDULER, at=timezone.now())
    workload = Workload.objects.get(pk=first.workload_id)
    again = admit(
        place.team,
        place.owner,
        place.pool,
        place.cluster,
        devices_of(place.cluster, "n1")[1:2],
        workload=workload,
    )
    [told] = desired.full_set(place.cluster.pk, new_id())[0].assignments
    assert (told.attempt, told.number, told.resumed_from) == (again.pk, 2, 700)
    AttemptNotes.objects.create(attempt=again, step=900)  # its own is where it is, not where it began
    [told] = desired.full_set(place.cluster.pk, new_id())[0].assignments
    assert told.resumed_from == 700


def test_who_is_preempted_with_two_minutes_gets_a_notice_that_is_part_of_them(place: Place) -> None:
    told = {}
    for index, grace_seconds in enumerate((119, 120, 600)):
        attempt = start(place, index)
        Workload.objects.filter(pk=attempt.workload_id).update(grace_seconds=grace_seconds)
        order = lifecycle.PreemptionOrder(
            workload_id=attempt.workload_id, version=Workload.objects.get(pk=attempt.workload_id).version,
            message="Its GPUs were reclaimed.", rule="reclaim", level="",
        )  # fmt: skip
        with transaction.atomic():
            lifecycle.preempt_many([order], by=SCHEDULER, at=timezone.now())
        told[attempt.pk] = (grace_seconds, Attempt.objects.get(pk=attempt.pk).ended_at)
    cancelled = start(place, 3)
    Workload.objects.filter(pk=cancelled.workload_id).update(grace_seconds=600)
    cancel(cancelled)
    [message] = desired.full_set(place.cluster.pk, new_id())
    notices = {order.attempt: order.notice for order in message.stop}
    assert notices.pop(cancelled.pk) is None
    for key, (grace_seconds, ended_at) in told.items():
        notice = notices[key]
        if grace_seconds < 120:
            assert notice is None
            continue
        assert notice is not None
        assert ended_at is not None
        assert notice.why == "Its GPUs were reclaimed."
        assert notice.signal_at == ended_at + timedelta(seconds=60)
        assert notice.grace_seconds == grace_seconds - 60
    assert [order.notice for order in fitted([message], "0.1.0")[0].stop] == [None] * 4
