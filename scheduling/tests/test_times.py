"""Later starts, deadlines and peak hours on the tables: what a cycle does, and when the next one is due."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from scheduling import engine
from scheduling.cycle import cycle, pending_changes
from scheduling.cycle.cycle import run_cycle
from scheduling.explain import submission
from scheduling.reading import recent
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, snapshot, team, waiting
from scheduling.tests.factories import run_pods
from scheduling.tests.proof.faults.times import SOON
from scheduling.whatif import preview
from teams import peak_hours
from teams.actors import Actor, Via
from teams.models import Pool
from workloads.models import Dependency, Event, Status, Workload
from workloads.requests import SubmissionRequest
from workloads.tests.factories import make_workload, preempt

HOURS = ("mon 08:00-18:00", "sat-mon 00:00-24:00", "sun 22:00-06:00", "mon 8-18", "mon 24:00-08:00", "mon 08:00-08:00",
         "fri-tue 00:00-00:01", "mon 08:60-09:00", "day 08:00-09:00", "")  # fmt: skip


def in_hours(hours: float) -> datetime:
    return timezone.now() + timedelta(hours=hours)


def test_one_that_is_to_start_later_waits_with_the_reason_and_starts_then(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, start_after=in_hours(1))
    run_cycle()
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code) == (Status.PENDING, "not-before")
    Workload.objects.update(start_after=in_hours(-1), version=workload.version + 1)
    cycle.forget()
    run_cycle()
    workload.refresh_from_db()
    assert workload.status == Status.QUEUED


def test_one_that_has_not_started_by_its_deadline_ends(acme: Acme) -> None:
    failed = make_workload(acme.research, acme.owner, deadline=in_hours(-1), held=True)
    cancelled = make_workload(acme.research, acme.owner, deadline=in_hours(-1), on_deadline="cancel")
    early = make_workload(acme.research, acme.owner, deadline=in_hours(1))
    run_cycle()
    for row in (failed, cancelled, early):
        row.refresh_from_db()
    assert (failed.status, cancelled.status, early.status) == (Status.FAILED, Status.CANCELLED, Status.QUEUED)
    assert failed.reason["message"].startswith("It had not started by its deadline, 20")
    assert failed.reason_code == "deadline-passed"
    assert Event.objects.filter(workload=cancelled, actor="scheduler").exists()


@pytest.mark.parametrize("on_deadline", ["fail", "cancel"])
def test_what_needs_one_that_ended_by_its_deadline_waits_with_the_reason_or_fails(
    acme: Acme, on_deadline: str
) -> None:
    needed = make_workload(acme.research, acme.owner, deadline=in_hours(-1), on_deadline=on_deadline)
    waits = make_workload(acme.research, acme.owner)
    fails = make_workload(acme.research, acme.owner, fail_if_impossible=True)
    for row in (waits, fails):
        Dependency.objects.create(workload=row, needs=needed)
    for _ in range(2):
        run_cycle()
        cycle.forget()
    for row in (needed, waits, fails):
        row.refresh_from_db()
    assert not needed.is_open
    assert (waits.status, waits.reason_code) == (Status.PENDING, "dependency-failed")
    assert (fails.status, fails.reason_code) == (Status.FAILED, "dependency-failed")


def test_one_that_was_queued_by_its_deadline_comes_back_after_a_preemption(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, deadline=in_hours(1))
    run_cycle()
    run_pods([workload])
    workload.refresh_from_db()
    Workload.objects.filter(pk=workload.pk).update(deadline=in_hours(-1))
    workload.refresh_from_db()
    preempt(workload)
    cycle.forget()
    run_cycle()
    workload.refresh_from_db()
    assert workload.status == Status.QUEUED


def test_the_picture_has_times_and_classes(acme: Acme) -> None:
    at = datetime(2036, 1, 1, tzinfo=UTC)
    make_workload(
        acme.research,
        acme.owner,
        start_after=at,
        deadline=at + timedelta(seconds=1),
        on_deadline="cancel",
        job_class="training",
    )
    [row] = take(timezone.now()).snapshot.workloads
    moment = round(at.timestamp() * 1000)
    assert (row.start_after, row.deadline) == (moment, moment + 1000)
    assert (row.on_deadline, row.job_class) == (engine.AfterDeadline.CANCEL, "training")


def test_the_next_cycle_is_due_when_time_changes_something() -> None:
    taken = datetime.fromtimestamp(NOW / 1000, UTC)

    def due_in_seconds(*workloads: engine.WorkloadInfo, peak: engine.PeakHours | None = None) -> float:
        there = snapshot([node("n")], [team("a")], workloads, pool(peak=peak))
        return (pending_changes.due(there, taken, NOW) - taken).total_seconds()

    assert due_in_seconds(waiting("w", "a")) == 15
    assert due_in_seconds(waiting("w", "a", start_after=NOW + 5000)) == 5
    assert due_in_seconds(waiting("w", "a", deadline=NOW + 7000)) == 7
    assert due_in_seconds(placed("r", "a", on="n:0", deadline=NOW + 7000)) == 15
    hours = tuple(engine.WeeklyHours(each.start - 15, each.end) for each in SOON.hours)
    soon = engine.PeakHours(hours, "UTC", 1000)
    until = -NOW % MINUTE / 1000
    assert due_in_seconds(peak=soon) == min(15, until or 15)


@pytest.mark.parametrize("text", HOURS)
def test_policies_and_the_engine_read_hours_alike(text: str) -> None:
    found = engine.weekly_hours(text)
    expected = peak_hours.minutes_of(text)
    assert (found is None) is (expected is None)
    assert [(each.start, each.end) for each in found or ()] == (expected or [])


def peak_now() -> dict[str, object]:
    """The policy of a pool in which it is peak."""
    today = timezone.now().weekday()
    first, last = (peak_hours.DAYS[(today + days) % 7] for days in (-1, 1))
    return {"peak_hours": [f"{first}-{last} 00:00-24:00"], "peak_max_gpus": 2}


def test_in_peak_hours_a_large_one_waits_and_is_told_until_when(acme: Acme, client: Client) -> None:
    Pool.objects.update(policy=peak_now())
    large = make_workload(acme.research, acme.owner, gpu_milli=4000)
    small = make_workload(acme.research, acme.owner, gpu_milli=2000)
    reserved = make_workload(acme.research, acme.owner, gpu_milli=4000, priority=100)
    run_cycle()
    for row in (large, small, reserved):
        row.refresh_from_db()
    assert (large.status, large.reason_code) == (Status.PENDING, "peak-hours")
    assert (small.status, reserved.status) == (Status.QUEUED, Status.QUEUED)
    client.force_login(acme.owner)
    why = client.get(f"/api/v1/workloads/{large.slug}/explain/").json()
    assert (
        "In the peak hours of the pool Main, elastic workloads of more than 2 GPUs are not admitted"
        in str(why)
    )
    assert "not before" in str(why)
    queue = client.get("/queue/main/").content.decode()
    assert "Peak hours<span" in queue
    assert "not before 20" in queue


def test_the_effect_of_peak_hours_is_shown_before_they_are_set(acme: Acme, client: Client) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=4000)
    client.force_login(acme.admin)
    body = {"pools": [{"pool": "main", "policy": peak_now()}]}
    answer = client.post("/api/v1/what-if/", body, content_type="application/json")
    assert answer.status_code == 200
    [row] = answer.json()["workloads"]
    assert (row["change"], row["reason_after"]) == ("no-longer-starts", "peak-hours")


def test_what_may_start_later_is_not_told_that_it_never_can(acme: Acme) -> None:
    Pool.objects.update(policy=peak_now())
    later = make_workload(
        acme.research, acme.owner, gpu_milli=4000, start_after=in_hours(1), deadline=in_hours(2)
    )
    assert submission.sentences([later]) == {later.pk: []}


def test_the_preview_says_when_it_may_start(acme: Acme, client: Client) -> None:
    Pool.objects.update(policy=peak_now())
    client.force_login(acme.owner)
    asked = {"team": "research", "pods": "1", "name": "idea", "image": "train:1"}

    def answer(**fields: str) -> str:
        recent.forget()
        return client.post("/scheduling/preview/", asked | fields).content.decode()

    assert "It is to start after 20" in answer(gpus="1", start_after="2h")
    assert "In the peak hours of the pool Main" in answer(gpus="4")
    assert "Starts now with 2 GPUs" in answer(gpus="2", deadline="2h")


def test_the_preview_of_one_whose_deadline_passes_meanwhile_says_so(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture that it is put into may be taken a moment after its deadline was looked at."""
    request = SubmissionRequest.parse(
        {"name": "late", "team": "research", "image": "train:1", "gpus": 1, "deadline": "1h"}
    )
    later = take(timezone.now() + timedelta(hours=2))
    monkeypatch.setattr(recent, "picture", lambda **_: later)
    answer = preview.preview(by=Actor.person(acme.owner, Via.API), request=request)
    assert answer.sentence == "Its deadline passes before it can start. Give a later one."
