"""What a submission has by the environment that it names, and what it is refused with where there is none."""

from typing import Any

import pytest

from chamber.errors import Refusal
from chamber.models import User
from teams.models import Team
from teams.tests.factories import actor, make_team, set_rules
from workloads.admissible import completed
from workloads.credentials.actions import create_credential, delete_credential
from workloads.environments.actions import add_version, archive_environment
from workloads.models import CredentialKind, NamedCredential, Workload
from workloads.requests import SubmissionRequest, Unreadable
from workloads.submission import submit
from workloads.tests.environments.conftest import IMAGE, VALUES, make

REGISTRY = {"server": "registry.example.org", "username": "robot", "password": "value"}


def submitted(owner: User, environment: str = "pytorch", **asked: Any) -> Workload:
    body = {"name": "bert", "team": "nlp", "environment": environment, **asked}
    (workload,) = submit(by=actor(owner), requests=[SubmissionRequest.parse(body)])
    workload.refresh_from_db()
    return workload


def refused(owner: User, environment: str = "pytorch", **asked: Any) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        submitted(owner, environment, **asked)
    assert not Workload.objects.exists()
    return caught.value.fields


def test_it_has_all_that_its_environment_has(owner: User, lead: User, team: Team) -> None:
    row = make(lead, team, **VALUES)
    workload = submitted(owner)
    assert (workload.runs_in, workload.environment_version) == ("nlp/pytorch@1", row.versions.get())
    assert (workload.image, workload.command) == (IMAGE, ["python", "train.py"])
    assert workload.environment == VALUES["variables"]
    assert (workload.working_dir, workload.shm_mib, workload.scratch_mib) == ("/workspace", 16384, 204_800)
    assert (workload.gpu_types, workload.node_selector) == (["A100"], {"zone": "a"})


def test_what_it_says_itself_holds(owner: User, lead: User, team: Team) -> None:
    make(lead, team, **{**VALUES, "gpu_types": []})
    workload = submitted(
        owner,
        image="train:9",
        command="true",
        variables={"EPOCHS": "9", "SEED": "1"},
        working_dir="/home",
        shm_mib=512,
        scratch_mib=1024,
        node_selector={"zone": "b", "disk": "ssd"},
    )
    assert (workload.image, workload.command[-1], workload.working_dir) == ("train:9", "true", "/home")
    assert workload.environment == {"NCCL_DEBUG": "INFO", "EPOCHS": "9", "SEED": "1"}
    assert (workload.shm_mib, workload.scratch_mib) == (512, 1024)
    assert workload.node_selector == {"zone": "b", "disk": "ssd"}


def test_the_newest_version_is_taken_and_an_older_one_by_its_number(
    owner: User, lead: User, team: Team
) -> None:
    row = make(lead, team)
    add_version(by=actor(lead), environment=row, values={"image": "train:2"})
    assert submitted(owner).image == "train:2"
    assert submitted(owner, "pytorch@1").image == IMAGE
    assert submitted(owner, "nlp/pytorch@1").runs_in == "nlp/pytorch@1"


def test_the_nearest_teams_is_meant_where_none_is_named(
    owner: User, lead: User, admin: User, org: Team, team: Team
) -> None:
    make(admin, org, image="root:1")
    assert submitted(owner).image == "root:1"
    row = make(lead, team, image="nlp:1")
    assert submitted(owner).image == "nlp:1"
    assert submitted(owner, "acme/pytorch").image == "root:1"
    archive_environment(by=actor(lead), environment=row, archived=True)
    assert submitted(owner).image == "root:1"


def test_an_unknown_one_is_told_with_the_nearest(owner: User, lead: User, team: Team) -> None:
    make(lead, team)
    assert refused(owner, "pytorhc") == {
        "environment": "There is no environment 'pytorhc' that workloads of NLP may name. Did you mean 'pytorch'?"
    }
    assert refused(owner, "zzz")["environment"].endswith("There are: nlp/pytorch.")


@pytest.mark.parametrize(
    "asked", [{"environment": "lost"}, {"image": "train:1", "mounts": ["lost:/data"]}], ids=["name", "mount"]
)
def test_many_that_name_what_is_not_there_cost_no_queries_each(
    owner: User, team: Team, asked: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    request = SubmissionRequest.parse({"name": "bert", "team": "nlp", **asked})
    with django_assert_max_num_queries(20), pytest.raises(Refusal):
        submit(by=actor(owner), requests=[request] * 100)


def test_one_of_another_team_is_refused(
    owner: User, lead: User, admin: User, team: Team, other_team: Team
) -> None:
    make(lead, team, "jax")
    make(admin, make_team(team, "Speech"), "kaldi")
    make(admin, other_team, "vit")
    assert refused(owner, "speech/kaldi")["environment"] == (
        "speech/kaldi is an environment of Speech. Workloads of NLP may name those of NLP and of the teams above it. "
        "There are: nlp/jax."
    )
    # That Vision has one is not for those who see nothing of Vision.
    assert refused(owner, "vision/vit")["environment"].startswith("There is no environment 'vision/vit'")


def test_a_version_that_is_not_there_is_told(owner: User, lead: User, team: Team) -> None:
    make(lead, team)
    assert refused(owner, "pytorch@7") == {"environment": "nlp/pytorch has no version 7: its newest is 1."}


def test_an_archived_one_takes_nothing_new(owner: User, lead: User, team: Team) -> None:
    archive_environment(by=actor(lead), environment=make(lead, team), archived=True)
    assert refused(owner) == {
        "environment": "nlp/pytorch is archived and takes nothing new. There are: none."
    }


@pytest.mark.parametrize("text", ["pytorch@0", "a//b", "Pytorch", "a@b", "x" * 113, "nlp/"])
def test_what_is_no_name_is_told(owner: User, text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        submitted(owner, text)
    assert "environment" in caught.value.fields


def test_without_image_and_environment_the_image_is_missing(owner: User) -> None:
    with pytest.raises(Unreadable, match="image is missing"):
        SubmissionRequest.parse({"name": "bert", "team": "nlp"})


def test_variables_are_given_once(owner: User) -> None:
    body = {"name": "bert", "team": "nlp", "image": "i", "environment": {"A": "1"}, "variables": {"B": "1"}}
    with pytest.raises(Unreadable, match="either under variables or under environment, not both"):
        SubmissionRequest.parse(body)


def test_its_image_is_pulled_by_the_credential_of_the_environment(
    owner: User, lead: User, team: Team
) -> None:
    credential = create_credential(
        by=actor(lead), name="pull", kind=CredentialKind.REGISTRY, content=REGISTRY, team=team
    )
    make(lead, team, pull_credential="nlp/pull")
    workload = submitted(owner)
    assert workload.credentials == ["nlp/pull"]
    assert NamedCredential.objects.get(workload=workload).credential == credential
    delete_credential(by=actor(lead), credential=credential)
    with pytest.raises(Refusal) as caught:
        submitted(owner)
    assert caught.value.fields["environment"] == (
        "The credential nlp/pull, by which the image of nlp/pytorch@1 is pulled, was deleted: the environment needs a "
        "new version."
    )


def test_its_credential_counts_among_those_that_a_workload_may_name(
    owner: User, lead: User, team: Team
) -> None:
    create_credential(by=actor(lead), name="pull", kind=CredentialKind.REGISTRY, content=REGISTRY, team=team)
    make(lead, team, pull_credential="nlp/pull")
    for number in range(8):
        content = {"token": "value", "variable": f"A{number}"}
        create_credential(by=actor(owner), name=f"t{number}", kind=CredentialKind.TOKEN, content=content)
    own = [f"t{number}" for number in range(8)]
    told = refused(owner, credentials=own)["credentials"]
    assert told.startswith(
        "It names 9 credentials, those of its environment and data sources included; at most 8"
    )
    assert len(submitted(owner, credentials=own[:7]).credentials or []) == 8


def test_an_image_that_is_not_allowed_any_more_is_refused(owner: User, lead: User, team: Team) -> None:
    make(lead, team, image="train:1")
    set_rules(team, digest_required=True)
    assert "names a tag" in refused(owner)["image"]


def test_shared_memory_beyond_the_pods_memory_is_refused(owner: User, lead: User, team: Team) -> None:
    make(lead, team, shm_mib=2048)
    assert refused(owner, memory_mib=1024)["environment"].startswith(
        "nlp/pytorch@1 has 2,048 MiB of shared memory"
    )
    assert submitted(owner, memory_mib=1024, shm_mib=512).shm_mib == 512


def test_command_and_variables_fit_a_message_together(owner: User, lead: User, team: Team) -> None:
    make(lead, team, variables={f"A{each}": "x" * 30_000 for each in range(2)})
    mine = {f"B{each}": "x" * 30_000 for each in range(7)}
    assert "together with those of nlp/pytorch@1" in refused(owner, variables=mine)["environment"]


def test_all_that_is_wrong_is_told_at_once(owner: User, lead: User, team: Team) -> None:
    make(lead, team)
    body = {"name": "bert", "team": "nlp", "environment": "pytorch@7", "pods": "many"}
    with pytest.raises(Unreadable) as caught:
        SubmissionRequest.parse(body)
    told = completed(caught.value, actor(owner)).fields
    assert set(told) == {"environment", "pods"}


def test_a_workload_keeps_its_version_whatever_becomes_of_the_environment(
    owner: User, lead: User, team: Team
) -> None:
    row = make(lead, team)
    workload = submitted(owner)
    add_version(by=actor(lead), environment=row, values={"image": "train:2"})
    archive_environment(by=actor(lead), environment=row, archived=True)
    workload.refresh_from_db()
    assert (workload.runs_in, workload.image) == ("nlp/pytorch@1", IMAGE)


def test_what_its_environment_adds_counts_for_each_member_of_an_array(
    owner: User, lead: User, team: Team
) -> None:
    make(lead, team, image="train:1", variables={"NOTES": "x" * 20_000})
    assert refused(owner, array=10_000)["environment"].startswith(
        "Command and variables of 10,000 members have up to 200,"
    )
    value = "y" * 32_000
    variables = {f"N{n}": value for n in range(7)}
    fields = refused(owner, variables=variables, array=[{"TEXT": value}])
    assert "together with those of nlp/pytorch@1; at most 262,144 are allowed." in fields["environment"]
