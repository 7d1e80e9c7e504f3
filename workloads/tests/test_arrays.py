"""Arrays: what is stored, what is refused, and what limits count."""

from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from chamber.errors import Refusal
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import actor, member
from workloads.arrays import asked
from workloads.credentials.actions import create_credential
from workloads.data.actions import create_source
from workloads.environments.actions import create_environment
from workloads.models import (
    CredentialKind,
    Event,
    MountedSource,
    NamedCredential,
    SourceKind,
    Status,
    Workload,
    WorkloadArray,
)
from workloads.requests import SubmissionRequest
from workloads.submission import Submitted, submit_all
from workloads.tests.factories import make_workload


def request(**changes: Any) -> SubmissionRequest:
    return SubmissionRequest.parse(
        {"name": "sweep", "team": "nlp", "image": "train:1", "array": "0-2", **changes}
    )


def submitted(by: User, **changes: Any) -> Submitted:
    return submit_all(by=actor(by), requests=[request(**changes)])


def array_of(by: User, **changes: Any) -> WorkloadArray:
    return submitted(by, **changes).arrays[0]


def test_each_member_is_a_workload_with_its_variables_and_its_event(owner: User, pool: Pool) -> None:
    made = submitted(
        owner, array="lr=0.1,0.01\nseed=1,2", max_parallel=3, environment={"EPOCHS": 3}, pods=2, gpus=4
    )
    array = made.arrays[0]
    assert (made.workloads, array.size, array.max_parallel) == ([], 4, 3)
    assert array.parameters == ["lr", "seed"]
    members = list(Workload.objects.filter(array=array).order_by("array_index"))
    assert [member.array_index for member in members] == [0, 1, 2, 3]
    assert [member.slug for member in members] == [f"{array.slug}-{index}" for index in range(4)]
    assert members[2].environment == {
        "EPOCHS": "3",
        "lr": "0.01",
        "seed": "1",
        "CHAMBER_ARRAY": array.slug,
        "CHAMBER_ARRAY_INDEX": "2",
        "CHAMBER_ARRAY_SIZE": "4",
    }
    assert {(member.status, member.owner, member.pods, member.gpu_milli) for member in members} == {
        (Status.PENDING, owner, 2, 4000)
    }
    assert [member.folded for member in members] == [None, True, True, True]
    assert [member.pk for member in members] == sorted(member.pk for member in members)
    event = Event.objects.get(workload=members[3])
    assert (event.sequence, event.message) == (1, f"Submitted. Member 3 of the array {array.slug}.")
    assert members[3].last_event == 1


def test_a_range_counts_by_its_numbers(owner: User, pool: Pool) -> None:
    array = array_of(owner, array="10-30:10")
    members = Workload.objects.filter(array=array).order_by("array_index")
    assert [member.environment["CHAMBER_ARRAY_INDEX"] for member in members] == ["10", "20", "30"]


def test_a_list_without_names_is_one_variable(owner: User, pool: Pool) -> None:
    array = array_of(owner, array=["en", "de"])
    members = Workload.objects.filter(array=array).order_by("array_index")
    assert [member.environment["CHAMBER_ARRAY_VALUE"] for member in members] == ["en", "de"]


def test_what_its_first_member_says_is_what_is_stored(owner: User, pool: Pool) -> None:
    first = submitted(owner, array=[{"lr": 0.1}, {"lr": 1}], labels={"a": "b"}, memory_mib="4 GiB").firsts[0]
    stored = Workload.objects.get(array_index=0)
    for field in Workload._meta.concrete_fields:
        if field.name != "created_at":
            assert getattr(first, field.attname) == getattr(stored, field.attname), field.name


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        ("0-10000", "The array has 10,001 members; at most 10,000 are allowed."),
        (
            {"grid": {"a": list(range(1000)), "b": list(range(1000))}},
            "The grid has 1,000 x 1,000 = 1,000,000 members; at most 10,000 are allowed.",
        ),
        ([], "The list of the array is empty: an array has 1 to 10,000 members."),
        (0, "The range 0 is empty: an array has 1 to 10,000 members."),
        ("lr,lr\n1,2", "The parameter lr is named twice: name each once."),
        (
            "CHAMBER_POD,lr\n1,2",
            "The parameter CHAMBER_POD is named like variables of Chamber (CHAMBER_...): choose another name.",
        ),
        ("a,b\n1,2\n3", "Line 3 of the CSV has 1 value; its names are 2: a, b."),
        (
            [{"a": "x" * 1_000_000}],
            "Value 1 of the parameter a has 1,000,000 characters; at most 32,768 are allowed.",
        ),
        ([{"a": 1}, {"b": 1}], "array[1] lacks a, which array[0] has: each has the same names."),
    ],
)
def test_what_cannot_be_is_told_with_its_value_and_what_is_allowed(array: Any, sentence: str) -> None:
    with pytest.raises(Refusal) as caught:
        request(array=array)
    assert caught.value.fields == {"array": sentence}


def test_a_grid_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("itertools.product", lambda *_: pytest.fail("it was built"))
    with pytest.raises(Refusal, match="10,000,000,000 members"):
        request(array={"grid": {name: list(range(100_000)) for name in "ab"}})


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"max_parallel": 0}, {"max_parallel": "max_parallel is 0; at least 1 is allowed."}),
        (
            {"array": None, "max_parallel": 4},
            {
                "max_parallel": "max_parallel is 4: it bounds how many members of an array run at once, and there is "
                "no array."
            },
        ),
        (
            {"array": "lr=1,2", "environment": {"lr": "3", "CHAMBER_ARRAY_INDEX": "9"}},
            {
                "array": "The variables lr, CHAMBER_ARRAY_INDEX of environment are set by the array for each member: "
                "leave it out there, or name the parameter otherwise."
            },
        ),
    ],
)
def test_what_contradicts_the_rest_is_told_at_its_field(
    changes: dict[str, Any], fields: dict[str, str]
) -> None:
    with pytest.raises(Refusal) as caught:
        request(**changes)
    assert caught.value.fields == fields


def test_all_that_its_members_run_is_bounded() -> None:
    with pytest.raises(
        Refusal, match=r"of 10,000 members have up to [\d,]+ bytes together; at most 67,108,864 are"
    ):
        request(array=10_000, environment={"CONFIGURATION": "x" * 20_000})


def test_a_parameter_named_like_a_secret_is_refused(owner: User, pool: Pool) -> None:
    with pytest.raises(Refusal) as caught:
        submitted(owner, array="HF_TOKEN=a,b")
    assert caught.value.fields["array"].startswith("HF_TOKEN looks like a secret by its name.")
    assert not Workload.objects.exists()


def test_members_count_as_open_workloads(owner: User, pool: Pool, team: Team, settings: Any) -> None:
    settings.LIMITS = {**settings.LIMITS, "open": 5}
    make_workload(team, owner)
    with pytest.raises(Refusal) as caught:
        submitted(owner, array=5)
    assert caught.value.message == (
        "You have 1 open workload of at most 5, and this would add 5 more. Cancel some, or wait until some have ended."
    )
    assert not WorkloadArray.objects.exists()
    submitted(owner, array=4)


def test_members_count_as_submissions(owner: User, pool: Pool) -> None:
    from django.conf import settings

    with override_settings(LIMITS={**settings.LIMITS, "submissions": 9}):
        with pytest.raises(
            Refusal, match="10 workloads at once are more than the 9 that are allowed within an hour"
        ):
            submitted(owner, array=10)
        submitted(owner, array=6)
        with pytest.raises(Refusal, match="You have submitted more than 9 workloads within an hour"):
            submitted(owner, array=4)


def test_the_same_key_gives_the_same_array(owner: User, pool: Pool) -> None:
    made = [
        submit_all(by=actor(owner), requests=[request()], key="once", body_sha256="a").arrays
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert Workload.objects.count() == 3


def test_more_members_cost_no_more_statements(owner: User, pool: Pool) -> None:
    submitted(owner)

    def statements(size: int) -> int:
        with CaptureQueriesContext(
            connection,
        ) as made:
            submitted(owner, array=size)
        return len(made)

    assert statements(100) == statements(3)


def test_each_member_has_what_its_environment_says_and_mounts_what_the_array_names(
    owner: User, pool: Pool, team: Team
) -> None:
    lead = actor(member(team, Role.LEAD, "lea"))
    content = {"server": "registry.example.org", "username": "robot", "password": "value"}
    pull = create_credential(by=lead, kind=CredentialKind.REGISTRY, name="pull", content=content, team=team)
    source = create_source(by=lead, team=team, name="imagenet", kind=SourceKind.CLAIM, details={})
    values = {"image": "train:2", "variables": {"EPOCHS": "3"}, "pull_credential": "nlp/pull"}
    create_environment(by=lead, team=team, name="pytorch", values=values)
    array = array_of(owner, image="", runs_in="pytorch", mounts=["imagenet:/data"])
    members = list(Workload.objects.filter(array=array))
    assert {each.image for each in members} == {"train:2"}
    assert {each.environment["EPOCHS"] for each in members} == {"3"}
    assert MountedSource.objects.filter(workload__array=array, source=source).count() == 3
    assert NamedCredential.objects.filter(workload__array=array, credential=pull).count() == 3


@pytest.mark.parametrize(
    "array",
    [
        {"grid": {"lr": ["a,b", "0.1"], "seed": ["1", "2"]}},
        {"grid": {"text": ['"quoted"', "plain"]}},
        {"grid": {"text": ["two\nlines", "one"], "seed": ["1", "2"]}},
        {"grid": {"text": [""]}},
        [{"text": ""}, {"text": "1"}],
        [""],
    ],
)
def test_its_text_in_a_form_gives_the_same_members(array: Any) -> None:
    first = asked.read(array)
    assert first is not None
    again = asked.read(first.text())
    assert again is not None
    assert list(again.members()) == list(first.members())


def test_empty_lines_of_a_csv_are_no_members() -> None:
    found = asked.read({"csv": "lr,seed\n1,2\n,\n\n  \n3,4\n"})
    assert found is not None
    assert found.rows == (("1", "2"), ("3", "4"))


def test_the_first_event_of_each_member_says_that_parts_of_a_gpu_are_taken_whole(
    owner: User, pool: Pool
) -> None:
    array = array_of(owner, gpus=0.5, priority=100)
    said = Event.objects.filter(workload__array=array).values_list("message", flat=True)
    assert len(said) == 3
    assert all("Each pod has a GPU of its own in place of 0.5 GPUs" in each for each in said)
