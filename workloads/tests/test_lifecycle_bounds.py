"""Refusals of workloads that only people can mend: held after a bound, whatever the cause."""

import pytest
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from teams.tests.factories import actor
from workloads import actions, lifecycle
from workloads.models import Status, Workload
from workloads.reasons import of_refusal
from workloads.tests.factories import SCHEDULER, admit, make_workload

pytestmark = pytest.mark.django_db


def refuse(workload: Workload, pool: Pool, *, most: int | None, code: str = "unschedulable") -> None:
    attempt = admit(workload, pool)
    bounds = {} if most is None else {attempt.pk: most}
    told = {attempt.pk: of_refusal(code, "No claim.")}
    assert lifecycle.refuse_many(told, by=SCHEDULER, at=timezone.now(), most=bounds) == {attempt.pk}
    workload.refresh_from_db()


def test_it_is_held_by_the_bound_of_its_attempt_and_goes_on_without_one(
    team: Team, owner: User, pool: Pool
) -> None:
    bounded, free = make_workload(team, owner), make_workload(team, owner)
    for tries in (1, 2, 3):
        refuse(bounded, pool, most=3)
        refuse(free, pool, most=None)
        assert (bounded.status, bounded.held, free.held) == (Status.PENDING, tries == 3, False)
    assert "on hold after 3 refusals in a row" in bounded.events.latest("sequence").message
    assert bounded.reason["message"] == "No claim."


@pytest.mark.parametrize("by_release", [True, False])
def test_once_somebody_had_it_tried_anew_refusals_are_counted_anew(
    team: Team, owner: User, pool: Pool, by_release: bool
) -> None:
    workload = make_workload(team, owner)
    for _ in range(3):
        refuse(workload, pool, most=3)
    assert workload.held
    if by_release:
        actions.act_on_many(by=actor(owner), act="release", workloads=[workload])
    else:
        why = "Its Job was changed."
        lifecycle.try_again_many([workload.pk], by=SCHEDULER, at=timezone.now(), why=why, anew=True)
    workload.refresh_from_db()
    for tries in (1, 2, 3):
        refuse(workload, pool, most=3)
        assert workload.held is (tries == 3)
        assert lifecycle.in_a_row([workload.pk])[workload.pk].refused == tries
    assert "on hold after 3 refusals in a row" in workload.events.latest("sequence").message


def test_refusals_that_pass_by_themselves_do_not_count_for_the_bound(
    team: Team, owner: User, pool: Pool
) -> None:
    workload = make_workload(team, owner)
    for _ in range(4):
        refuse(workload, pool, most=None, code="quota-exceeded")
    refuse(workload, pool, most=3)
    assert not workload.held
    refuse(workload, pool, most=3)
    refuse(workload, pool, most=3)
    assert workload.held
