"""Reports: twice, late, out of order, of somebody else; each changes what it may and nothing more."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink import assignments, reports
from agentlink.models import Assignment, Device, Hold, Placement
from agentlink.protocol import DISPLACING, ErrorCode, Observed, PodReport, PodState, Report, ReportedPhase
from agentlink.tests.agents import admit, cancel, devices_of, report
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.ids import new_id
from workloads import reasons
from workloads.models import Attempt, EndReason, Event, Status, Workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(place: Place) -> Attempt:
    return admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])


def take(place: Place, *found: Report) -> reports.ReportOutcome:
    place.cluster.refresh_from_db()
    return reports.take(place.cluster, Observed(reports=found), connection=place.cluster.connection)


def status(attempt: Attempt) -> str:
    return Workload.objects.get(pk=attempt.workload_id).status


def occupied() -> int:
    return sum(Device.objects.values_list("occupied_milli", flat=True))


LIFE = [
    (ReportedPhase.STARTING, Status.STARTING, 1000),
    (ReportedPhase.RUNNING, Status.RUNNING, 1000),
    (ReportedPhase.SUCCEEDED, Status.COMPLETED, 0),
]


def test_a_workload_follows_its_reports(place: Place, attempt: Attempt) -> None:
    for sequence, (phase, expected, milli) in enumerate(LIFE, start=1):
        outcome = take(place, report(attempt, phase, sequence))
        assert [taken.sequence for taken in outcome.taken] == [sequence]
        assert (status(attempt), occupied()) == (expected, milli)
    attempt.refresh_from_db()
    assert attempt.released_at is not None
    assert attempt.exit_code == 0
    row = Assignment.objects.get(attempt=attempt)
    assert (row.wanted, row.gone) == (False, True)


def test_every_report_twice_is_acknowledged_and_changes_nothing(place: Place, attempt: Attempt) -> None:
    for sequence, (phase, _, _) in enumerate(LIFE, start=1):
        same = report(attempt, phase, sequence)
        take(place, same)
        events = Event.objects.count()
        assert len(take(place, same, same).taken) == 2
        assert Event.objects.count() == events


def test_a_late_report_does_not_turn_back_a_newer_one(place: Place, attempt: Attempt) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 5))
    outcome = take(place, report(attempt, ReportedPhase.STARTING, 4), report(attempt, ReportedPhase.GONE, 3))
    assert len(outcome.taken) == 2
    assert status(attempt) == Status.RUNNING
    assert Assignment.objects.get(attempt=attempt).report_sequence == 5


def test_one_report_that_tells_all_takes_the_workload_through_all(place: Place, attempt: Attempt) -> None:
    take(place, report(attempt, ReportedPhase.SUCCEEDED, 1))
    assert status(attempt) == Status.COMPLETED
    told = [event.data.get("status") for event in Event.objects.filter(workload=attempt.workload)]
    assert told[-4:-1] == [Status.STARTING, Status.RUNNING, Status.COMPLETED]


def test_a_completion_that_leaves_no_pod_writes_placements_and_devices_once(
    place: Place, attempt: Attempt
) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    with CaptureQueriesContext(connection) as seen:
        take(place, report(attempt, ReportedPhase.SUCCEEDED, 2))
    written = [query["sql"] for query in seen.captured_queries if query["sql"].startswith("UPDATE")]
    assert sum('"agentlink_placement"' in sql for sql in written) == 1
    assert set(Placement.objects.values_list("hold", flat=True)) == {Hold.RELEASED}
    row = Assignment.objects.get(attempt=attempt)
    assert (row.report_sequence, row.wanted, row.gone, row.pods) == (2, False, True, [])
    attempt.refresh_from_db()
    assert attempt.released_at == Workload.objects.get(pk=attempt.workload_id).finished_at


def test_what_was_pulled_is_kept_of_the_attempt(place: Place, attempt: Attempt) -> None:
    """Also once it is over, and the last word stands."""
    pulled = ("registry.example.org/train@sha256:0f",)
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    assert Attempt.objects.get(pk=attempt.pk).images is None
    take(place, report(attempt, ReportedPhase.RUNNING, 2, images=pulled))
    take(place, report(attempt, ReportedPhase.SUCCEEDED, 3))
    attempt.refresh_from_db()
    assert (attempt.images, attempt.exit_code) == (list(pulled), 0)


def test_a_failure_keeps_exit_code_and_reason(place: Place, attempt: Attempt) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    take(
        place,
        report(
            attempt,
            ReportedPhase.FAILED,
            2,
            exit_code=137,
            reason="out-of-memory",
            message="Too much memory.",
        ),
    )
    workload = Workload.objects.get(pk=attempt.workload_id)
    assert (workload.status, workload.reason_code) == (Status.FAILED, "out-of-memory")
    assert workload.reason["message"] == "Too much memory."


def test_devices_of_a_failed_gang_are_held_until_its_last_pod_is_gone(place: Place) -> None:
    gang = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:2])
    left = (PodReport(index=1, node="n1", state=PodState.RUNNING),)
    take(place, report(gang, ReportedPhase.FAILED, 1, exit_code=1, pods=left))
    assert (status(gang), occupied()) == (Status.FAILED, 2000)
    take(place, report(gang, ReportedPhase.FAILED, 2, exit_code=1))
    assert occupied() == 0


def test_what_the_cluster_could_not_start_goes_back_to_the_queue(place: Place, attempt: Attempt) -> None:
    take(
        place,
        report(
            attempt,
            ReportedPhase.FAILED,
            1,
            created_at=None,
            reason="unschedulable",
            message="Node n1 is down.",
        ),
    )
    assert (status(attempt), occupied()) == (Status.PENDING, 0)
    attempt.refresh_from_db()
    assert attempt.end_reason == EndReason.REFUSED


def test_a_completion_that_comes_after_a_cancel_frees_devices_and_changes_no_status(
    place: Place, attempt: Attempt
) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    cancel(attempt)
    take(place, report(attempt, ReportedPhase.SUCCEEDED, 2))
    assert (status(attempt), occupied()) == (Status.CANCELLED, 0)


def test_a_cancelled_workload_holds_its_devices_until_its_pods_are_gone(
    place: Place, attempt: Attempt
) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    cancel(attempt)
    take(place, report(attempt, ReportedPhase.STOPPING, 2))
    assert occupied() == 1000
    take(place, report(attempt, ReportedPhase.GONE, 3))
    assert occupied() == 0


def test_pods_that_vanished_displace_the_workload(place: Place, attempt: Attempt) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    take(place, report(attempt, ReportedPhase.GONE, 2))
    attempt.refresh_from_db()
    assert (status(attempt), attempt.end_reason) == (Status.PENDING, EndReason.DISPLACED)
    assert attempt.end_detail["code"] == "pods-vanished"
    assert occupied() == 0


def test_whatever_a_cluster_refuses_of_running_work_displaces_it() -> None:
    by_clusters = (reasons.LASTING | reasons.PASSING) - reasons.NOT_HANDED
    assert by_clusters <= DISPLACING


LEFT = (PodReport(index=0, node="n1", state=PodState.RUNNING, reason="terminating"),)


@pytest.mark.parametrize("code", sorted(DISPLACING))
def test_what_the_cluster_took_away_is_pending_once_its_pods_are_gone(
    place: Place, attempt: Attempt, code: str
) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    why = {"reason": code, "message": "It was taken away."}
    take(place, report(attempt, ReportedPhase.FAILED, 2, pods=LEFT, **why))
    assert (status(attempt), occupied()) == (Status.RUNNING, 1000)
    take(place, report(attempt, ReportedPhase.FAILED, 3, **why))
    attempt.refresh_from_db()
    assert (status(attempt), occupied()) == (Status.PENDING, 0)
    assert attempt.end_detail["message"] == "It was taken away."
    assert attempt.released_at is not None


@pytest.mark.parametrize("phase", [ReportedPhase.SUCCEEDED, ReportedPhase.GONE])
def test_what_ends_well_after_it_was_taken_away_is_displaced_all_the_same(
    place: Place, attempt: Attempt, phase: ReportedPhase
) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    take(
        place,
        report(attempt, ReportedPhase.FAILED, 2, pods=LEFT, reason="drained", message="It was drained."),
    )
    take(place, report(attempt, ReportedPhase.RUNNING, 3))  # late, of an agent that began anew
    assert status(attempt) == Status.RUNNING
    take(place, report(attempt, phase, 4, exit_code=0))
    attempt.refresh_from_db()
    assert (status(attempt), attempt.end_detail["code"]) == (Status.PENDING, "drained")


def test_whoever_cancels_what_was_taken_away_has_it_cancelled(place: Place, attempt: Attempt) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    take(
        place,
        report(attempt, ReportedPhase.FAILED, 2, pods=LEFT, reason="drained", message="It was drained."),
    )
    cancel(attempt)
    take(place, report(attempt, ReportedPhase.FAILED, 3, reason="drained", message="It was drained."))
    attempt.refresh_from_db()
    assert (status(attempt), attempt.end_reason) == (Status.CANCELLED, EndReason.CANCELLED)


@pytest.mark.parametrize("code", ["exit-code", "out-of-memory", "evicted", "image-not-pulled", "job-deleted"])
def test_what_is_the_workloads_own_doing_fails(place: Place, attempt: Attempt, code: str) -> None:
    take(place, report(attempt, ReportedPhase.RUNNING, 1))
    take(place, report(attempt, ReportedPhase.FAILED, 2, reason=code, message="It failed."))
    assert status(attempt) == Status.FAILED


def test_a_newcomer_is_let_go_with_the_report_that_frees_its_devices(place: Place, attempt: Attempt) -> None:
    cancel(attempt)
    new = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    assert not Assignment.objects.get(attempt=new).let_go
    take(place, report(attempt, ReportedPhase.GONE, 1))
    assert Assignment.objects.get(attempt=new).let_go


@pytest.mark.parametrize("change", ["attempt", "workload", "number"])
def test_a_report_of_what_is_not_assigned_here_is_answered_with_an_error(
    place: Place, attempt: Attempt, change: str
) -> None:
    strange = report(attempt, ReportedPhase.SUCCEEDED, 1).model_copy(
        update={change: 9 if change == "number" else new_id()}
    )
    outcome = take(place, strange, report(attempt, ReportedPhase.RUNNING, 1))
    assert [error.code for error in outcome.errors] == [ErrorCode.UNKNOWN_ATTEMPT]
    assert outcome.errors[0].attempt == strange.attempt
    assert [taken.attempt for taken in outcome.taken] == [attempt.pk]
    assert status(attempt) == Status.RUNNING


def test_a_report_of_a_workload_of_another_cluster_changes_nothing(place: Place, attempt: Attempt) -> None:
    west = make_cluster("west")
    make_node(west, "n1", pool=place.pool)
    outcome = reports.take(
        west, Observed(reports=(report(attempt, ReportedPhase.SUCCEEDED, 1),)), connection=None
    )
    assert (len(outcome.errors), outcome.taken) == (1, [])
    assert (status(attempt), occupied()) == (Status.QUEUED, 1000)


def test_pods_taken_away_free_their_devices_when_the_agent_that_knows_sees_them_no_more(place: Place) -> None:
    gang = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:2])
    pods = tuple(PodReport(index=index, node="n1", state=PodState.RUNNING) for index in range(2))
    take(place, report(gang, ReportedPhase.RUNNING, 1, pods=pods))
    assignments.remove_pods(gang.pk, [1])
    generation = Assignment.objects.get(attempt=gang).generation
    take(place, report(gang, ReportedPhase.RUNNING, 2, pods=pods[:1], generation=generation - 1))
    assert occupied() == 2000
    take(place, report(gang, ReportedPhase.RUNNING, 3, pods=pods, generation=generation))
    assert occupied() == 2000
    take(place, report(gang, ReportedPhase.RUNNING, 4, pods=pods[:1], generation=generation))
    assert occupied() == 1000
    assert Placement.objects.get(attempt=gang, pod_index=1).hold == Hold.RELEASED


@pytest.mark.parametrize("off", [timedelta(days=-400), timedelta(days=400)])
def test_an_agent_whose_clock_is_wrong_writes_no_impossible_times(
    place: Place, attempt: Attempt, off: timedelta
) -> None:
    wrong = timezone.now() + off
    take(
        place, report(attempt, ReportedPhase.SUCCEEDED, 1, created_at=wrong, running_at=wrong, ended_at=wrong)
    )
    attempt.refresh_from_db()
    times = [attempt.queued_at, attempt.starting_at, attempt.running_at, attempt.ended_at, timezone.now()]
    known = [at for at in times if at is not None]
    assert len(known) == len(times)
    assert known == sorted(known)


def test_an_older_conversation_is_not_heard_any_more(place: Place, attempt: Attempt) -> None:
    told = Observed(reports=(report(attempt, ReportedPhase.RUNNING, 1),))
    with pytest.raises(reports.Superseded):
        reports.take(place.cluster, told, connection=new_id())
    assert status(attempt) == Status.QUEUED


def test_the_number_of_queries_does_not_depend_on_the_number_of_reports(place: Place) -> None:
    devices = [*devices_of(place.cluster, "n1"), *devices_of(place.cluster, "n2")]
    attempts = [admit(place.team, place.owner, place.pool, place.cluster, [device]) for device in devices]
    counts = []
    for chosen in (attempts[:1], attempts[1:]):
        with CaptureQueriesContext(connection) as queries:
            take(place, *(report(attempt, ReportedPhase.SUCCEEDED, 1) for attempt in chosen))
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert occupied() == 0
