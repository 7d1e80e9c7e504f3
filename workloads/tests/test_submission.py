"""Submitting: what is stored, what is refused, and who may."""

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import NotAllowed, NotVisible, Refusal
from chamber.models import User
from teams.actors import Actor
from teams.models import JobClass, Pool, PriorityTier, Role, Team
from teams.tests.factories import actor, make_pool, member, set_rules
from workloads import known
from workloads.models import EventKind, Status, Workload
from workloads.requests import SubmissionRequest
from workloads.shapes import WorkloadShape
from workloads.submission import submit
from workloads.tests.factories import make_workload


def request(**changes: Any) -> SubmissionRequest:
    return SubmissionRequest.parse({"name": "bert", "team": "nlp", "image": "train:1", **changes})


def refused(by: User, **changes: Any) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        submit(by=actor(by), requests=[request(**changes)])
    assert not Workload.objects.exists()
    return caught.value.fields


def test_it_is_pending_with_its_first_event(
    owner: User, pool: Pool, rung: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        (workload,) = submit(by=actor(owner), requests=[request(pools=["main"], pods=2, gpus=4, cpu=1.5)])
    workload.refresh_from_db()
    assert (workload.status, workload.owner, workload.team.slug) == (Status.PENDING, owner, "nlp")
    assert (workload.pods, workload.min_pods, workload.gpu_milli, workload.cpu_milli) == (2, 2, 4000, 1500)
    assert workload.pool_choice == [str(pool.pk)]
    event = workload.events.get()
    assert (event.sequence, event.kind, event.user, workload.last_event) == (1, EventKind.SUBMITTED, owner, 1)
    assert {"workloads", "overview", "queue:main", "ring"} <= set(rung)


def test_a_pool_that_is_new_to_this_process_is_named_in_what_is_told(
    owner: User, pool: Pool, rung: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    submit(by=actor(owner), requests=[request()])
    known.slugs()
    make_pool("mars")
    with django_capture_on_commit_callbacks(execute=True):
        (workload,) = submit(by=actor(owner), requests=[request(pools=["mars"])])
    assert WorkloadShape(workload).data["pools"] == ["mars"]
    assert "queue:mars" in rung


def test_names_may_come_twice_and_addresses_may_not(owner: User, pool: Pool) -> None:
    made = submit(by=actor(owner), requests=[request() for _ in range(200)])
    assert len({workload.slug for workload in made}) == 200


def test_held_it_waits_for_its_release(owner: User, pool: Pool) -> None:
    (workload,) = submit(by=actor(owner), requests=[request(hold=True)])
    assert workload.held
    assert "Held until" in workload.events.get().message


def test_several_are_taken_all_or_none(owner: User, pool: Pool) -> None:
    with pytest.raises(Refusal) as caught:
        submit(by=actor(owner), requests=[request(), request(priority=99), request(pools=["mars"])])
    assert set(caught.value.fields) == {"workloads[1].priority", "workloads[2].pools"}
    assert not Workload.objects.exists()


def test_an_unknown_team_and_one_that_is_not_mine_look_alike(
    owner: User, other_team: Team, pool: Pool
) -> None:
    for slug in ("mars", "vision"):
        with pytest.raises(NotVisible) as caught:
            submit(by=actor(owner), requests=[request(team=slug)])
        assert caught.value.message == f"There is no team {slug!r}."
        assert caught.value.fields == {"team": caught.value.message}


def test_who_only_views_a_team_may_not_submit_to_it(team: Team, pool: Pool) -> None:
    with pytest.raises(NotAllowed, match="does not let you submit workloads in NLP"):
        submit(by=actor(member(team, Role.VIEWER)), requests=[request()])


def test_an_archived_team_takes_nothing(team: Team, owner: User, pool: Pool) -> None:
    team.archived_at = timezone.now()
    team.save()
    assert "archived" in refused(owner)["team"]


@pytest.mark.parametrize(
    ("priority", "allowed"), [(75, True), (76, False), (99, False), (100, True), (101, False)]
)
def test_a_researcher_has_a_range_of_priorities(
    owner: User, pool: Pool, priority: int, allowed: bool
) -> None:
    if allowed:
        assert submit(by=actor(owner), requests=[request(priority=priority)])
    else:
        sentence = refused(owner, priority=priority)["priority"]
        assert sentence == (
            f"Priority {priority} is outside your range in NLP: "
            "0 to 75 for elastic work, 100 for reserved work."
        )


def test_the_rules_of_the_team_bound_size_and_time(team: Team, owner: User, pool: Pool) -> None:
    set_rules(team, largest_workload_milli=4000, longest_time_limit_seconds=3600)
    found = refused(owner, pods=5, time_limit="2h")
    assert found["pods"] == "It asks for 5 GPUs in all; NLP allows 4 GPUs at most."
    assert found["time_limit"] == "A time limit of 2h is longer than NLP allows: at most 1h."
    assert "No time limit" in refused(owner, pods=1, time_limit="none")["time_limit"]
    (taken,) = submit(by=actor(owner), requests=[request(pods=1)])
    assert taken.time_limit_seconds == 3600  # that of its class is cut to it


def test_what_does_not_exist_is_named_with_what_does(owner: User, pool: Pool) -> None:
    make_node(make_cluster(), "n1", pool=pool)
    found = refused(owner, pools=["mian"], gpu_types=["Z9000"], depends_on=["nobody"])
    assert found["pools"] == "There is no pool 'mian'. Did you mean 'main'?"
    assert found["gpu_types"] == "There is no GPU type 'Z9000'. There are: H100."
    assert "nobody" in found["depends_on"]


def test_a_gang_larger_than_every_pool_is_refused_with_the_numbers(owner: User, pool: Pool) -> None:
    make_node(make_cluster(), "n1", pool=pool, ready=False)
    sentence = "It starts with 3 pods of 4 GPUs, 12 GPUs at once; pool Main has 8 GPUs."
    assert refused(owner, pods=3, gpus=4) == {"pods": sentence}
    assert "It starts with 1 pod of 16 GPUs, " in refused(owner, pods=1, gpus=16)["pods"]
    assert submit(by=actor(owner), requests=[request(pods=3, gpus=4, min_pods=2)])


def test_where_a_pool_is_still_empty_a_gang_may_wait_for_it(owner: User, pool: Pool) -> None:
    make_node(make_cluster(), "n1", pool=pool)
    make_pool("Later")
    assert submit(by=actor(owner), requests=[request(pods=100)])


def test_it_may_wait_for_workloads_that_one_sees(
    team: Team, other_team: Team, owner: User, pool: Pool
) -> None:
    first = make_workload(team, owner)
    hidden = make_workload(other_team, member(other_team, Role.RESEARCHER))
    (second,) = submit(by=actor(owner), requests=[request(depends_on=[first.slug, first.slug])])
    assert [needed.needs for needed in second.needs.all()] == [first]
    with pytest.raises(Refusal, match="There is no workload"):
        submit(by=actor(owner), requests=[request(depends_on=[hidden.slug])])
    with pytest.raises(Refusal, match=f"Did you mean '{second.slug}', the newest of that name"):
        submit(by=actor(owner), requests=[request(depends_on=[second.name])])


def test_chamber_itself_owns_no_workload(pool: Pool, team: Team) -> None:
    with pytest.raises(Refusal, match="needs an owner"):
        submit(by=Actor.system("scheduler"), requests=[request()])


def test_many_take_as_few_queries_as_one(owner: User, pool: Pool, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(40):
        submit(by=actor(owner), requests=[request() for _ in range(100)])


def test_what_cannot_be_read_and_what_is_not_there_are_told_together(owner: User, team: Team) -> None:
    """Whatever field is wrong hides nothing of the others, nor of the other workloads."""
    first = {"name": "a", "team": "nlp", "image": "x", "pods": 0, "pools": ["mian"], "priority": 100_000}
    second = {"name": "b", "team": "nobody", "image": "x", "pools": ["mian"], "depends_on": ["none"]}
    third = {"team": "nlp", "gpus": 0.3, "pods": 1000}
    client = APIClient()
    client.force_authenticate(owner)
    answer = client.post("/api/v1/workloads/", {"workloads": [first, second, third]}, format="json")
    assert answer.status_code == 422
    assert answer.json()["errors"].keys() == {
        *("workloads[0].pods", "workloads[0].pools", "workloads[0].priority"),
        *("workloads[1].team", "workloads[1].pools", "workloads[1].depends_on"),
        *("workloads[2].name", "workloads[2].image", "workloads[2].gpus"),
    }
    with pytest.raises(NotVisible) as refused:
        submit(by=actor(owner), requests=[request(team="nobody", pools=["mian"]), request(pools=["mian"])])
    assert refused.value.fields.keys() == {"workloads[0].team", "workloads[0].pools", "workloads[1].pools"}
    assert not Workload.objects.exists()


@pytest.mark.parametrize("asked", ["high", 75, 90])
def test_a_tier_is_for_its_roles_by_name_and_by_number(
    team: Team, owner: User, pool: Pool, asked: object
) -> None:
    PriorityTier.objects.filter(slug="high").update(least_role=Role.LEAD)
    set_rules(team, researcher_priority={"elastic_max": 99, "reserved_max": 100})
    set_rules(team.parent or team, may_be_widened=True)
    number = 75 if asked == "high" else asked
    assert refused(owner, priority=asked) == {
        "priority": f"Priority {number} is of the tier High (75 to 99), which takes the role Lead or more in NLP."
    }
    assert submit(by=actor(owner), requests=[request(priority=74)])[0].priority == 74
    lead = member(team, Role.LEAD)
    assert submit(by=actor(lead), requests=[request(priority=asked)])[0].priority == number


def test_a_class_whose_priority_one_may_not_give_is_told_with_it(team: Team, owner: User, pool: Pool) -> None:
    set_rules(team, researcher_priority={"elastic_max": 75, "reserved_max": None})
    told = refused(owner, job_class="serving")["priority"]
    assert told.startswith(
        "Priority 100, which Serving has, is outside your range in NLP: 0 to 75 for elastic work"
    )


def test_a_class_that_is_none_or_retired_takes_nothing(owner: User, pool: Pool) -> None:
    assert refused(owner, job_class="trianing") == {
        "job_class": "There is no job class 'trianing'. Did you mean 'training'?"
    }
    JobClass.objects.filter(slug="training").update(retired_at=timezone.now())
    assert (
        "is retired and takes nothing new. There are: experiment,"
        in refused(owner, job_class="training")["job_class"]
    )
    JobClass.objects.all().delete()
    assert "There is no job class yet" in refused(owner)["job_class"]
