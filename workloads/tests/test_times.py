"""When a workload may start and by when it must: as people write it, as it is stored, and what becomes of it."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from chamber.errors import Refusal
from chamber.models import User
from teams.actors import Actor, Via
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.lifecycle import WaitingFailure
from workloads.manifests import content_of, parse
from workloads.models import OnDeadline, Status, Workload
from workloads.moments import moment, moment_text
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tests.factories import SCHEDULER, admit, make_workload, preempt

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
GOOD = {"name": "bert", "team": "nlp", "image": "registry.example/train:1"}


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("2h", "2026-11-27T14:00:00Z"),
        (90, "2026-11-27T12:01:30Z"),
        ("1d 30m", "2026-11-28T12:30:00Z"),
        ("2026-12-01T20:00Z", "2026-12-01T20:00:00Z"),
        ("2026-12-01T20:00:05+01:00", "2026-12-01T19:00:05Z"),
        ("2026-12-01 20:00 Europe/Berlin", "2026-12-01T19:00:00Z"),
        ("2026-07-01T20:00 Europe/Berlin", "2026-07-01T18:00:00Z"),
        (datetime(2026, 12, 1, tzinfo=UTC), "2026-12-01T00:00:00Z"),
    ],
)
def test_a_time_has_a_zone_or_is_from_now(written: object, means: str) -> None:
    assert moment(written, NOW) == datetime.fromisoformat(means)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("2026-12-01T20:00", "'2026-12-01T20:00' has no time zone: write 2026-12-01T20:00Z"),
        (datetime(2026, 12, 1), "'2026-12-01T00:00:00' has no time zone"),  # noqa: DTZ001 - that is the mistake
        ("2026-12-01 20:00 Mars/Olympus", "'Mars/Olympus' is no time zone: write one such as UTC"),
        ("2026-12-01T20:00Z Europe/Berlin", "is no time"),
        ("tomorrow", "'tomorrow' is no time: write one with its zone"),
        ("2026-13-01T20:00Z", "is no time"),
        ("", "is no time"),
        (-5, "-5 is no time"),
        (True, "true is no time"),
        ([], "is no time"),
        ("9000d", "'9000d' is more than ten years from now"),
        ("99999999999999999d", "is more than ten years from now"),
        ("1999-01-01T00:00Z", "is more than ten years from now"),
        ("x" * 5000, "is no time"),
    ],
)
def test_what_is_no_time_is_told(written: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"is |has ") as refused:
        moment(written, NOW)
    assert sentence in str(refused.value)


def wrong(**fields: object) -> dict[str, str]:
    with pytest.raises(Refusal) as refused:
        SubmissionRequest.parse({**GOOD, **fields})
    return dict(refused.value.fields)


def test_a_deadline_is_after_now_and_after_the_earliest_start() -> None:
    past = moment_text(timezone.now() - timedelta(hours=1))
    told = wrong(deadline=(timezone.now() - timedelta(hours=1)).isoformat())["deadline"]
    assert told.startswith(f"The deadline {past[:16]}")
    assert "has passed: it is " in told
    told = wrong(start_after="3h", deadline="2h")["deadline"]
    assert told.startswith("The deadline ")
    assert "is not after the earliest start, " in told
    assert "could never start" in told
    assert set(wrong(start_after="2026-12-01T20:00", deadline="soon")) == {"start_after", "deadline"}
    assert "'fail' or 'cancel'" in wrong(deadline="2h", on_deadline="cry")["on_deadline"]


def test_the_form_and_the_api_store_the_same(team: Team, owner: User, client: Client) -> None:
    request = SubmissionRequest.parse(
        {**GOOD, "team": team.slug, "start_after": "1h", "deadline": "2h", "on_deadline": "cancel"}
    )
    [stored] = submit(by=Actor.person(owner, Via.API), requests=[request])
    client.force_login(owner)
    values = {**GOOD, "team": team.slug, "tier": "normal", "pods": "1", "gpus": "1", "start_after": "1h",
              "deadline": "2h", "on_deadline": "cancel", "job_class": "experiment"}  # fmt: skip
    assert client.post("/workloads/submit/", values).status_code in (200, 302)
    for workload in Workload.objects.all():
        assert workload.start_after is not None
        assert workload.deadline is not None
        hour = (workload.deadline - workload.start_after).total_seconds()
        assert round(hour) == 3600
        assert workload.on_deadline == OnDeadline.CANCEL
    assert Workload.objects.count() == 2
    page = client.get(f"/workloads/{stored.slug}/").content.decode()
    assert "Earliest start" in page
    assert ", else it is cancelled" in page


def test_what_becomes_of_it_after_the_deadline_is_said_only_while_it_waits(
    team: Team, owner: User, pool: Pool, client: Client
) -> None:
    workload = make_workload(
        team, owner, deadline=timezone.now() + timedelta(hours=1), on_deadline="fail", priority=10
    )
    client.force_login(owner)
    assert ", else it fails" in client.get(f"/workloads/{workload.slug}/").content.decode()
    admit(workload, pool)
    page = client.get(f"/workloads/{workload.slug}/").content.decode()
    assert "Start deadline" in page
    assert ", else it fails" not in page


def test_the_form_says_what_is_wrong_beside_the_field(team: Team, owner: User, client: Client) -> None:
    client.force_login(owner)
    values = {**GOOD, "team": team.slug, "tier": "normal", "start_after": "3h", "deadline": "2h"}
    page = client.post("/workloads/submit/", values).content.decode()
    assert "is not after the earliest start" in page
    assert 'value="3h"' in page


def test_a_manifest_says_again_what_is_still_to_come(team: Team, owner: User) -> None:
    later = (timezone.now() + timedelta(hours=3)).replace(microsecond=0)
    there = make_workload(
        team, owner, start_after=later, deadline=later + timedelta(hours=1), on_deadline="cancel"
    )
    asked = content_of(there, {}, user=owner)
    assert datetime.fromisoformat(asked["start_after"]) == later
    assert asked["on_deadline"] == "cancel"
    past = make_workload(team, owner, start_after=timezone.now() - timedelta(hours=3))
    assert not {"start_after", "deadline", "on_deadline"} & content_of(past, {}, user=owner).keys()
    [again] = parse("name: a\nteam: nlp\nimage: i\nstart_after: 2036-01-01T00:00:00Z\n")
    assert again.start_after == datetime(2036, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cancels", "status", "kind"),
    [(False, Status.FAILED, "failed"), (True, Status.CANCELLED, "cancelled")],
)
def test_one_that_is_too_late_ends_as_it_asked(
    team: Team, owner: User, cancels: bool, status: Status, kind: str
) -> None:
    late, other = make_workload(team, owner), make_workload(team, owner)
    told = [
        WaitingFailure(late.pk, late.version, "deadline-passed", "Too late.", "Again.", cancels),
        WaitingFailure(other.pk, other.version, "larger-than-pool", "Too large.", "Less."),
    ]
    with transaction.atomic():
        assert lifecycle.fail_waiting(told, by=SCHEDULER, at=timezone.now()) == {late.pk, other.pk}
    late.refresh_from_db()
    other.refresh_from_db()
    assert (late.status, late.reason["kind"], late.reason_code) == (status, kind, "deadline-passed")
    assert other.status == Status.FAILED
    assert late.finished_at is not None


def test_back_in_the_queue_it_has_no_deadline_any_more(team: Team, owner: User, pool: Pool) -> None:
    workload = make_workload(
        team, owner, deadline=timezone.now() + timedelta(hours=1), on_deadline="cancel", priority=10
    )
    admit(workload, pool)
    assert workload.deadline is not None
    preempt(workload)
    workload.refresh_from_db()
    stored = Workload.objects.values_list("status", "deadline", "on_deadline").get()
    assert stored == (Status.PENDING, None, "")


def test_the_database_refuses_a_deadline_before_the_start(team: Team, owner: User) -> None:
    now = timezone.now()
    with pytest.raises(IntegrityError, match="workload_deadline_after_start"), transaction.atomic():
        make_workload(team, owner, start_after=now, deadline=now)
    with pytest.raises(IntegrityError, match="workload_on_deadline_known"), transaction.atomic():
        make_workload(team, owner, deadline=now, on_deadline="cry")
