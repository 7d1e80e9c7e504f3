"""What workloads and arrays start after: how it is named, what is refused, and what each end means."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.errors import Refusal
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import actor, member
from workloads import chains, needs
from workloads.models import Dependency, DependencyKind, Status, Workload, WorkloadArray
from workloads.needs import NeedOutcome
from workloads.requests import SubmissionRequest
from workloads.submission import Submitted, submit_all
from workloads.tests.factories import make_array, make_workload

MET, WAITING, NEVER = NeedOutcome.MET, NeedOutcome.WAITING, NeedOutcome.NEVER


def request(name: str = "late", **changes: Any) -> SubmissionRequest:
    return SubmissionRequest.parse({"name": name, "team": "nlp", "image": "train:1", **changes})


def submitted(by: User, *requests: SubmissionRequest) -> Submitted:
    return submit_all(by=actor(by), requests=requests)


def refused(by: User, *requests: SubmissionRequest) -> dict[str, str]:
    before = Workload.objects.count()
    with pytest.raises(Refusal) as caught:
        submitted(by, *requests)
    assert Workload.objects.count() == before
    return caught.value.fields


@pytest.mark.parametrize(
    ("kind", "statuses", "means"),
    [
        ("afterok", ["pending"], WAITING),
        ("afterok", ["running", "completed"], WAITING),
        ("afterok", ["completed"], MET),
        ("afterok", ["completed", "completed"], MET),
        ("afterok", ["cancelled"], NEVER),
        ("afterok", ["running", "failed"], NEVER),
        ("afterany", ["starting"], WAITING),
        ("afterany", ["failed", "queued"], WAITING),
        ("afterany", ["failed", "completed"], MET),
        ("afternotok", ["pending"], WAITING),
        ("afternotok", ["failed", "running"], WAITING),
        ("afternotok", ["preempted"], MET),
        ("afternotok", ["completed", "failed"], MET),
        ("afternotok", ["completed"], NEVER),
    ],
)
def test_what_an_end_means(kind: str, statuses: list[str], means: NeedOutcome) -> None:
    assert needs.outcome(kind, statuses) is means


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ["afterwards:x"],
            "depends_on has 'afterwards:x'; write the name of a workload or an array, or afterok:NAME, afterany:NAME, "
            "afternotok:NAME.",
        ),
        (["x", "afterany:x"], "x stands in depends_on in 2 ways: choose one of them."),
    ],
)
def test_what_is_no_need_is_told(given: list[str], sentence: str) -> None:
    with pytest.raises(Refusal) as caught:
        request(depends_on=given)
    assert caught.value.fields == {"depends_on": sentence}


def test_a_need_is_stored_with_its_kind(owner: User, pool: Pool, team: Team) -> None:
    first, array = make_workload(team, owner), make_array(team, owner)
    asked = request(depends_on=[f"afterok:{first.slug}", f"afternotok:{array.slug}"])
    assert asked.depends_on == [first.slug, f"afternotok:{array.slug}"]
    (late,) = submitted(owner, asked).workloads
    rows = Dependency.objects.filter(workload=late).order_by("kind")
    assert [(row.kind, row.needs, row.needs_array) for row in rows] == [
        (DependencyKind.AFTER_NOT_OK, None, array),
        (DependencyKind.AFTER_OK, first, None),
    ]


def test_each_member_of_an_array_starts_after_it(owner: User, pool: Pool, team: Team) -> None:
    first = make_workload(team, owner)
    array = submitted(owner, request(array=3, depends_on=[f"afterany:{first.slug}"])).arrays[0]
    rows = Dependency.objects.filter(workload__array=array, needs=first, kind="afterany")
    assert rows.count() == 3


def test_others_of_the_request_are_named_by_their_names(owner: User, pool: Pool) -> None:
    made = submitted(
        owner,
        request("report", depends_on=["afterany:sweep"]),
        request("sweep", array=2, depends_on=["prepare"]),
        request("prepare"),
    )
    report, prepare = made.workloads
    (sweep,) = made.arrays
    assert Dependency.objects.get(workload=report).needs_array == sweep
    assert {row.needs for row in Dependency.objects.filter(workload__array=sweep)} == {prepare}


def test_a_circle_is_refused(owner: User, pool: Pool) -> None:
    told = refused(
        owner,
        request("a", depends_on=["b"]),
        request("b", depends_on=["c"]),
        request("c", depends_on=["a"]),
        request("d"),
    )
    assert set(told) == {f"workloads[{place}].depends_on" for place in range(3)}
    assert told["workloads[0].depends_on"].endswith(": none of them would ever start.")
    for pair in ("a waits for b", "b waits for c", "c waits for a"):
        assert pair in told["workloads[0].depends_on"]


def test_nothing_starts_after_itself(owner: User, pool: Pool) -> None:
    told = refused(owner, request("a", depends_on=["a"]), request("b"))
    assert told == {"workloads[0].depends_on": "a cannot start after itself."}


def test_a_name_that_two_have_says_nothing(owner: User, pool: Pool) -> None:
    told = refused(owner, request("a"), request("a"), request("b", depends_on=["a"]))
    assert told["workloads[2].depends_on"].startswith("2 workloads of this request are called 'a'")


def test_what_one_may_not_see_is_unknown(owner: User, pool: Pool, other_team: Team) -> None:
    theirs = member(other_team, Role.RESEARCHER, "theo")
    hidden, array = make_workload(other_team, theirs), make_array(other_team, theirs)
    for slug in (hidden.slug, array.slug, "nothing"):
        assert refused(owner, request(depends_on=[slug])) == {
            "depends_on": f"There is no workload {slug!r} that it could depend on."
        }


def test_a_chain_is_bounded(owner: User, pool: Pool, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "MOST_DEEP", 3)
    last = make_workload(team, owner).slug
    for _ in range(2):
        last = submitted(owner, request(depends_on=[last])).workloads[0].slug
    assert refused(owner, request(depends_on=[last]))["depends_on"].startswith(
        f"{last} is the last of 3 that start one after the other and have not ended: no more may."
    )
    Workload.objects.filter(slug=last).update(status="cancelled", finished_at=timezone.now())
    submitted(owner, request(depends_on=[f"afterany:{last}"]))


def test_more_needs_cost_no_more_queries(owner: User, pool: Pool, team: Team) -> None:
    def queries(size: int) -> int:
        slugs = [make_workload(team, owner).slug for _ in range(size)]
        with CaptureQueriesContext(connection) as made:
            submitted(owner, request(depends_on=slugs))
        return len(made)

    queries(2)  # reads which pools there are, once for some seconds
    assert queries(20) == queries(2)


def test_dependencies_of_an_array_are_bounded(owner: User, pool: Pool, team: Team) -> None:
    slugs = [make_workload(team, owner).slug for _ in range(6)]
    told = refused(owner, request(array=10_000, depends_on=slugs))["depends_on"]
    assert told.startswith(
        "10,000 members that start after 6 others each are 60,000 dependencies; at most 50,000"
    )


def test_the_api_and_the_manifest_say_it_again(client: Client, owner: User, pool: Pool, team: Team) -> None:
    first, array = make_workload(team, owner), make_array(team, owner)
    asked = [f"afterany:{first.slug}", array.slug]
    late = submitted(owner, request(depends_on=asked)).workloads[0]
    client.force_login(owner)
    assert sorted(client.get(f"/api/v1/workloads/{late.slug}/").json()["depends_on"]) == sorted(asked)
    page = client.get(f"/workloads/{late.slug}/").content.decode()
    assert f"- afterany:{first.slug}" in page
    assert f'<a href="/workloads/arrays/{array.slug}/">sweep</a> (array) has completed' in page


def test_a_chain_is_shown_by_levels_as_far_as_one_may_see(
    client: Client, owner: User, pool: Pool, team: Team, other_team: Team
) -> None:
    prepare = make_workload(team, owner, name="prepare")
    sweep = submitted(owner, request("sweep", array=5, depends_on=[prepare.slug])).arrays[0]
    report = submitted(owner, request("report", depends_on=[f"afterany:{sweep.slug}"])).workloads[0]
    hidden = make_workload(other_team, owner, name="hidden")
    Dependency.objects.create(workload=hidden, needs=report)

    def levels(of: Workload | WorkloadArray) -> list[list[str]]:
        return [[link.name for link in level.links] for level in chains.chain_of(of, owner)]

    assert levels(report) == levels(sweep) == levels(prepare) == [["prepare"], ["sweep"], ["report"]]
    client.force_login(owner)
    for address in (f"/workloads/{report.slug}/", f"/workloads/arrays/{sweep.slug}/"):
        page = client.get(address).content.decode()
        assert "prepare (Pending); then sweep (array); then report (Pending)" in page
    assert levels(make_workload(team, owner)) == []


def test_many_that_start_after_one_are_counted(owner: User, team: Team) -> None:
    first = make_workload(team, owner)
    for _ in range(12):
        Dependency.objects.create(workload=make_workload(team, owner), needs=first)
    before, after = chains.chain_of(first, owner)
    assert (len(before.links), len(after.links), after.more) == (1, 8, 4)


@pytest.mark.parametrize(
    ("statuses", "kind", "sentence"),
    [
        (
            ["pending", "held", "completed"],
            "afterok",
            "It starts only after all members of the array {slug} have completed; 2 of 3 have not.",
        ),
        (
            ["failed", "cancelled", "completed"],
            "afterok",
            "2 members of the array {slug} ended otherwise than Completed, and all have to complete first.",
        ),
        (
            ["completed", "completed"],
            "afternotok",
            "All members of the array {slug} have completed, and it starts only after another end.",
        ),
    ],
)
def test_what_keeps_one_from_starting_is_told(
    owner: User, team: Team, statuses: list[str], kind: str, sentence: str
) -> None:
    array, late = make_array(team, owner, statuses=statuses), make_workload(team, owner)
    Dependency.objects.create(workload=late, needs_array=array, kind=kind)
    (need,) = needs.unmet([late.pk])[late.pk]
    assert need.sentence(array.slug) == sentence.format(slug=array.slug)


RETRY = "Retry the members that failed (chamber arrays retry sweep-1)"
REST = "those that were cancelled or preempted (chamber arrays members sweep-1 --status cancelled --status preempted)"


@pytest.mark.parametrize(
    ("statuses", "name", "step"),
    [
        (["failed", "failed"], "sweep-1", RETRY),
        (["failed", "preempted"], "sweep-1", f"{RETRY}, and requeue {REST}"),
        (["cancelled", "completed"], "sweep-1", f"Requeue {REST}"),
        (["failed"], "of NLP", "Ask NLP to run these members again"),
    ],
)
def test_the_next_step_is_one_that_does_it(
    owner: User, team: Team, statuses: list[str], name: str, step: str
) -> None:
    array, late = make_array(team, owner, slug="sweep-1", statuses=statuses), make_workload(team, owner)
    Dependency.objects.create(workload=late, needs_array=array)
    (need,) = needs.never([late.pk])[late.pk]
    assert need.step(name) == step


def test_the_database_takes_one_need_a_row(owner: User, team: Team) -> None:
    from django.db import IntegrityError, transaction

    array, first, late = make_array(team, owner), make_workload(team, owner), make_workload(team, owner)
    wrong: list[dict[str, Any]] = [
        {},
        {"needs": first, "needs_array": array},
        {"needs": first, "kind": "someday"},
    ]
    for columns in wrong:
        with pytest.raises(IntegrityError), transaction.atomic():
            Dependency.objects.create(workload=late, **columns)
    Dependency.objects.create(workload=late, needs_array=array)
    with pytest.raises(IntegrityError), transaction.atomic():
        Dependency.objects.create(workload=late, needs_array=array, kind="afterany")
    assert late.status == Status.PENDING
