"""What is done to all members of an array: to which, by whom, and what is told of it."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chamber.errors import Conflict, NotAllowed, NotVisible
from chamber.models import User
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, member
from workloads.actions import hand_over
from workloads.arrays import acts
from workloads.models import Status, Workload, WorkloadArray
from workloads.tests.factories import make_array

STATUSES = ("pending", "pending", "held", "failed", "failed", "completed")


@pytest.fixture
def array(team: Team, owner: User) -> WorkloadArray:
    return make_array(team, owner, slug="sweep-1", statuses=STATUSES)


def states(array: WorkloadArray) -> list[str]:
    rows = Workload.objects.filter(array=array).order_by("array_index")
    return ["held" if row.held else str(row.status) for row in rows]


@pytest.mark.parametrize(
    ("act", "done", "after"),
    [
        ("cancel", 3, ["cancelled", "cancelled", "cancelled", "failed", "failed", "completed"]),
        ("hold", 2, ["held", "held", "held", "failed", "failed", "completed"]),
        ("release", 1, ["pending", "pending", "pending", "failed", "failed", "completed"]),
        ("retry", 2, ["pending", "pending", "held", "pending", "pending", "completed"]),
    ],
)
def test_it_is_done_to_those_whose_status_allows_it(
    array: WorkloadArray, owner: User, act: str, done: int, after: list[str]
) -> None:
    assert acts.act_on(by=actor(owner), array=array, act=act) == done
    assert states(array) == after
    assert not AuditEvent.objects.filter(action__startswith="array.").exists()
    last = Workload.objects.filter(array=array).order_by("array_index")[0 if act in {"cancel", "hold"} else 2]
    if act != "retry":
        assert last.events.order_by("-sequence")[0].sequence == last.last_event == 2


@pytest.mark.parametrize("act", acts.ACTS)
def test_where_there_is_none_it_says_so(team: Team, owner: User, act: str) -> None:
    array = make_array(team, owner, statuses=["completed"])
    with pytest.raises(Conflict, match=f"{array.slug} has no member that"):
        acts.act_on(by=actor(owner), array=array, act=act)


def test_who_manages_workloads_leaves_one_row_with_how_many(array: WorkloadArray, team: Team) -> None:
    lead = member(team, Role.LEAD, "lena")
    acts.act_on(by=actor(lead), array=array, act="cancel")
    (event,) = AuditEvent.objects.filter(target_name="sweep-1")
    assert (event.action, event.actor, event.after) == (
        "array.cancelled",
        "lena",
        {"owner": "ada", "members": 3},
    )


def test_mates_may_not_and_outsiders_learn_nothing(
    array: WorkloadArray, team: Team, other_team: Team
) -> None:
    with pytest.raises(NotAllowed, match="sweep-1 belongs to ada"):
        acts.act_on(by=actor(member(team, Role.RESEARCHER, "mate")), array=array, act="hold")
    with pytest.raises(NotVisible):
        acts.act_on(by=actor(member(other_team, Role.LEAD, "outsider")), array=array, act="hold")
    assert states(array)[:2] == ["pending", "pending"]


def test_nothing_of_an_archived_team_is_run_again(array: WorkloadArray, team: Team, owner: User) -> None:
    from django.utils import timezone

    Team.objects.filter(pk=team.pk).update(archived_at=timezone.now())
    with pytest.raises(Conflict, match="NLP was archived"):
        acts.act_on(by=actor(owner), array=array, act="retry")


def test_more_members_cost_no_more_queries(team: Team, owner: User) -> None:
    def queries(size: int) -> int:
        array = make_array(team, owner, statuses=["pending"] * size)
        with CaptureQueriesContext(connection) as made:
            acts.act_on(by=actor(owner), array=array, act="cancel")
        return len(made)

    queries(2)  # reads which pools there are, once for some seconds
    assert queries(12) == queries(2)


# Pages and the API


@pytest.fixture
def signed_in(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


def test_its_page_counts_and_shows_its_members(signed_in: Client, array: WorkloadArray) -> None:
    answer = signed_in.get("/workloads/arrays/sweep-1/")
    text = answer.content.decode()
    assert answer.context["counts"].by_status == {"pending": 3, "failed": 2, "completed": 1}
    assert (answer.context["can"], answer.context["counts"].percent) == (
        {"cancel": 3, "hold": 2, "release": 1, "retry": 2},
        50,
    )
    assert 'data-confirm="Cancel 3 of 6 members of sweep?"' in text
    assert 'data-confirm="Requeue 2 failed members of sweep?"' in text
    assert [row.array_index for row in answer.context["place"].object_list] == [0, 1, 2, 3, 4, 5]
    failed = signed_in.get("/workloads/arrays/sweep-1/?status=failed")
    assert [row.array_index for row in failed.context["place"].object_list] == [3, 4]


def test_its_page_is_paged(signed_in: Client, team: Team, owner: User) -> None:
    array = make_array(team, owner, statuses=["pending"] * 55)
    with CaptureQueriesContext(connection) as made:
        answer = signed_in.get(f"/workloads/arrays/{array.slug}/?page=2")
    assert [row.array_index for row in answer.context["place"].object_list] == list(range(50, 55))
    assert len(made) <= 12


def test_parameters_are_shown_to_who_sees_values(signed_in: Client, array: WorkloadArray, team: Team) -> None:
    WorkloadArray.objects.update(parameters=["lr"])
    Workload.objects.filter(array_index=1).update(environment={"lr": "0.0125"})
    assert "0.0125" in signed_in.get("/workloads/arrays/sweep-1/").content.decode()
    viewer = Client()
    viewer.force_login(member(team, Role.VIEWER, "vera"))
    page = viewer.get("/workloads/arrays/sweep-1/")
    assert page.status_code == 200
    assert "0.0125" not in page.content.decode()
    assert "data-confirm" not in page.content.decode()


def test_a_button_says_how_many(signed_in: Client, array: WorkloadArray) -> None:
    text = signed_in.post("/workloads/arrays/sweep-1/retry/", follow=True).content.decode()
    assert "Requeued 2 of 6 members of sweep." in text
    assert (
        "has no member that failed"
        in signed_in.post("/workloads/arrays/sweep-1/retry/", follow=True).content.decode()
    )


def test_the_list_has_one_row_that_unfolds(
    signed_in: Client, array: WorkloadArray, team: Team, owner: User
) -> None:
    from workloads.tests.factories import make_workload

    make_workload(team, owner, name="alone")

    def rows(**query: str) -> list[str]:
        shown = signed_in.get("/workloads/", query).context["rows"]
        return [row.array.array.slug if row.array else row.workload.slug for row in shown]

    assert rows()[1:] == ["sweep-1"]
    text = signed_in.get("/workloads/").content.decode()
    assert "3 Pending, 1 Completed, 2 Failed" in text
    assert rows(unfold="sweep-1")[1:] == ["sweep-1", *(f"sweep-1-{index}" for index in range(6))]
    assert rows(status="failed") == ["sweep-1"]
    assert rows(status="running") == []
    assert rows(array="sweep-1") == [f"sweep-1-{index}" for index in range(5, -1, -1)]
    assert rows(q="sweep") == ["sweep-1"]


def test_the_list_costs_a_bounded_number_of_queries(signed_in: Client, team: Team, owner: User) -> None:
    slug, *_ = (make_array(team, owner).slug for _ in range(12))
    signed_in.get("/workloads/")
    with CaptureQueriesContext(connection) as made:
        signed_in.get("/workloads/", {"status": "open", "unfold": slug})
    assert len(made) <= 12


def test_arrays_are_chosen_in_the_list(signed_in: Client, array: WorkloadArray) -> None:
    text = signed_in.post(
        "/workloads/bulk/", {"act": "hold", "array": ["sweep-1"]}, follow=True
    ).content.decode()
    assert "Held 2 of 6 members of sweep." in text
    assert states(array)[:3] == ["held"] * 3
    again = signed_in.post(
        "/workloads/bulk/", {"act": "hold", "array": ["sweep-1"]}, follow=True
    ).content.decode()
    assert "has no member that waits and is not held" in again


def test_over_the_api_it_is_submitted_read_and_acted_on(signed_in: Client, pool: Any) -> None:
    body = {
        "name": "sweep",
        "team": "nlp",
        "image": "train:1",
        "array": {"grid": {"lr": [0.1, 1]}},
        "max_parallel": 1,
    }
    answer = signed_in.post("/api/v1/workloads/", body, content_type="application/json")
    assert answer.status_code == 201, answer.json()
    (shown,) = answer.json()["arrays"]
    assert answer.json()["workloads"] == []
    assert (shown["size"], shown["max_parallel"], shown["parameters"]) == (2, 1, ["lr"])
    assert shown["members"] == {status.value: 2 if status == "pending" else 0 for status in Status}
    address = f"/api/v1/arrays/{shown['slug']}/"
    warnings = shown.pop("warnings")
    assert signed_in.get(address).json() == shown
    assert warnings
    members = signed_in.get("/api/v1/workloads/", {"array": shown["slug"]}).json()["results"]
    assert [(each["array"], each["array_index"]) for each in members] == [
        (shown["slug"], 1),
        (shown["slug"], 0),
    ]
    assert [each["environment"]["lr"] for each in members] == ["1", "0.1"]
    done = signed_in.post(f"{address}cancel/").json()
    assert (done["done"], done["message"], done["array"]["percent"]) == (
        2,
        "Cancelled 2 of 2 members of sweep.",
        100,
    )
    assert signed_in.post(f"{address}cancel/").status_code == 409


def test_over_the_api_they_are_listed_by_cursor(
    signed_in: Client, org: Team, team: Team, owner: User
) -> None:
    made = [make_array(team, owner).slug for _ in range(3)]
    first = signed_in.get("/api/v1/arrays/", {"limit": "2", "owner": "me"}).json()
    rest = signed_in.get(first["next"]).json()
    assert [each["slug"] for each in first["results"] + rest["results"]] == made[::-1]
    assert rest["next"] is None
    assert signed_in.get("/api/v1/arrays/", {"cursor": "nonsense"}).status_code == 422
    above = Client()
    above.force_login(member(org, Role.ORG_ADMIN, "olga"))
    assert len(above.get("/api/v1/arrays/", {"team": org.slug}).json()["results"]) == 3
    nobody = signed_in.get("/api/v1/arrays/", {"owner": "nobody"})
    assert (nobody.status_code, nobody.json()["errors"]) == (
        404,
        {"owner": "There is no user 'nobody' that you may see."},
    )


def test_the_form_submits_an_array_and_shows_it(signed_in: Client, pool: Any) -> None:
    form = {
        "name": "sweep",
        "team": "nlp",
        "image": "train:1",
        "array": "lr=0.1,0.01\nseed=1,2,3",
        "max_parallel": "2",
    }
    answer = signed_in.post("/workloads/submit/", form)
    array = WorkloadArray.objects.get()
    assert answer.headers["Location"] == f"/workloads/arrays/{array.slug}/"
    assert (array.size, array.max_parallel, Workload.objects.count()) == (6, 2, 6)
    wrong = signed_in.post("/workloads/submit/", {**form, "array": "0-10000", "max_parallel": "0"})
    errors = wrong.context["form"].errors
    assert errors["array"] == ["The array has 10,001 members; at most 10,000 are allowed."]
    assert errors["max_parallel"] == ["Members at once is '0'; at least 1 is allowed."]
    assert wrong.context["form"]["array"].value() == "0-10000"


def test_pace_says_how_long_the_rest_takes(array: WorkloadArray) -> None:
    from datetime import UTC, datetime, timedelta

    from workloads.arrays.counts import ArrayCounts

    now = datetime(2030, 1, 1, tzinfo=UTC)
    counted = ArrayCounts(
        {"completed": 5, "failed": 6, "running": 2, "pending": 18}, now - timedelta(minutes=10)
    )
    assert counted.left(now) == timedelta(minutes=20)
    assert ArrayCounts({"completed": 1, "running": 2}, now - timedelta(minutes=10)).left(now) is None
    assert ArrayCounts({"completed": 3}, now - timedelta(minutes=10)).left(now) is None


@pytest.mark.parametrize(
    "asked", [{"grid": {"lr": ["0.1", "1"], "seed": ["1"]}}, {"list": ["en", "de"]}, {"range": "3-9:3"}]
)
def test_cloned_it_is_the_same_array_again(signed_in: Client, pool: Any, asked: dict[str, Any]) -> None:
    body = {
        "name": "sweep",
        "team": "nlp",
        "image": "train:1",
        "array": asked,
        "environment": {"EPOCHS": "3"},
    }
    made = signed_in.post("/api/v1/workloads/", {**body, "max_parallel": 2}, content_type="application/json")
    (first,) = WorkloadArray.objects.all()
    assert made.status_code == 201
    form = signed_in.get("/workloads/submit/", {"array": first.slug}).context["form"]
    filled = {name: form[name].value() or "" for name in form.fields}
    assert filled["environment"] == "EPOCHS=3"
    signed_in.post("/workloads/submit/", {**filled, "tab": "", "pools": ""})
    again = WorkloadArray.objects.latest("pk")
    assert again != first
    assert (again.max_parallel, again.parameters, again.size) == (2, first.parameters, first.size)

    def variables(array: WorkloadArray) -> list[dict[str, str]]:
        rows = (
            Workload.objects.filter(array=array).order_by("array_index").values_list("environment", flat=True)
        )
        return [{**row, "CHAMBER_ARRAY": ""} for row in rows]

    assert variables(again) == variables(first)


def test_who_does_not_see_values_clones_none(array: WorkloadArray, team: Team, pool: Any) -> None:
    WorkloadArray.objects.update(parameters=["lr"], asked={"grid": {"lr": ["0.0125"]}})
    Workload.objects.update(environment={"lr": "0.0125"})
    mate = Client()
    mate.force_login(member(team, Role.RESEARCHER, "mate"))
    answer = mate.get("/workloads/submit/", {"array": "sweep-1"})
    assert "0.0125" not in answer.content.decode()
    assert not answer.context["form"]["array"].value()


def test_an_heir_runs_no_member_again_that_had_ended_before(team: Team, owner: User) -> None:
    array = make_array(team, owner, statuses=["failed", "pending", "pending"])
    heir = member(team, Role.RESEARCHER, "hanna")
    members = Workload.objects.filter(array=array)
    hand_over(by=actor(owner), ids=set(members.values_list("pk", flat=True)), to=heir)
    array.refresh_from_db()
    assert (array.owner, members.get(status=Status.FAILED).owner) == (heir, owner)
    with pytest.raises(Conflict, match="no member that failed"):
        acts.act_on(by=actor(heir), array=array, act="retry")
    assert acts.act_on(by=actor(heir), array=array, act="cancel") == 2
