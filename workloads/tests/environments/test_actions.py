"""Environments are made, given new versions, archived and deleted by leads of their team."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from chamber.models import User
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, make_team, make_user, member, set_rules
from workloads.credentials.actions import create_credential, delete_credential
from workloads.environments import actions
from workloads.environments.actions import (
    add_version,
    archive_environment,
    delete_environment,
)
from workloads.models import Credential, CredentialKind, Environment, EnvironmentVersion
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tests.environments.conftest import IMAGE, VALUES, make

REGISTRY = {"server": "registry.example.org", "username": "robot", "password": "value"}


def registry(by: User, team: Team, kind: str = "registry") -> Credential:
    content = REGISTRY if kind == "registry" else {"token": "value"}
    return create_credential(by=actor(by), name="pull", kind=CredentialKind(kind), content=content, team=team)


def refused(by: User, team: Team, **values: Any) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        make(by, team, **values)
    assert not Environment.objects.exists()
    return caught.value.fields


def test_it_is_made_with_its_first_version(lead: User, team: Team) -> None:
    row = make(lead, team, **VALUES, note="The first")
    version = row.versions.get()
    assert (row.reference, row.newest, version.number, version.made_by) == ("nlp/pytorch", 1, 1, lead)
    assert {name: getattr(version, name) for name in VALUES} == VALUES
    acts = list(AuditEvent.objects.order_by("at", "id").values_list("action", flat=True))
    assert acts[-2:] == ["environment.created", "environment.versioned"]
    assert "INFO" not in str(list(AuditEvent.objects.values_list("after", flat=True)))


def test_a_version_follows_the_one_before_which_stays(lead: User, team: Team) -> None:
    row = make(lead, team, **VALUES)
    made = add_version(by=actor(lead), environment=row, values={"image": "train:2", "note": "Newer"})
    assert (made.reference, made.command, made.note) == ("nlp/pytorch@2", [], "Newer")
    assert row.versions.get(number=1).image == IMAGE


def test_the_same_again_is_no_new_version(lead: User, team: Team) -> None:
    row = make(lead, team, **VALUES)
    made = add_version(by=actor(lead), environment=row, values={**VALUES, "note": "Again"})
    assert (made.number, EnvironmentVersion.objects.count()) == (1, 1)


@pytest.mark.parametrize(
    ("values", "field", "told"),
    [
        ({"image": ""}, "image", "image is missing."),
        ({"image": "a b"}, "image", "may hold no blanks"),
        ({"image": "train@sha256:12"}, "image", "64 small hexadecimal digits"),
        ({"working_dir": "data"}, "working_dir", "'data' is no whole path: begin with a slash"),
        ({"working_dir": "/a/../etc"}, "working_dir", "leads elsewhere by . or .."),
        ({"variables": {"1A": "x"}}, "variables", "is no name of an environment variable"),
        ({"variables": {"CHAMBER_TEAM": "x"}}, "variables", "is set by Chamber itself"),
        ({"variables": {"HF_TOKEN": "x"}}, "variables", "looks like a secret by its name"),
        ({"shm_mib": 0}, "shm_mib", "at least 1 is allowed"),
        ({"scratch_mib": "17 TiB"}, "scratch_mib", "at most 16,777,216 is allowed"),
        ({"colour": "red"}, "colour", "There is no field 'colour'."),
        ({"note": "a\u202eb"}, "note", "The note contains the character"),
        ({"note": "x" * 201}, "note", "at most 200 characters"),
        (
            {"pull_credential": "nlp/no"},
            "pull_credential",
            "There is no credential 'nlp/no' of the type registry",
        ),
    ],
)
def test_what_cannot_be_is_told(
    lead: User, team: Team, values: dict[str, Any], field: str, told: str
) -> None:
    found = refused(lead, team, **values)
    assert list(found) == [field]
    assert told in found[field]


@pytest.mark.parametrize("name", ["", "Pytorch", "1st", "a" * 41, "py torch", "a@1", "a/b", "end-"])
def test_names_are_plain(lead: User, team: Team, name: str) -> None:
    with pytest.raises(Refusal, match="is no name of an environment"):
        make(lead, team, name)


def test_a_name_is_once_a_team(lead: User, admin: User, team: Team, org: Team) -> None:
    make(lead, team)
    make(admin, org)
    with pytest.raises(Conflict, match="NLP has an environment 'pytorch' already"):
        make(lead, team)
    with pytest.raises(IntegrityError), transaction.atomic():
        Environment.objects.create(team=team, name="pytorch")


def test_an_image_that_the_teams_rules_forbid_is_refused(lead: User, org: Team, team: Team) -> None:
    set_rules(org, images=["registry.example.org/*"])
    assert refused(lead, team, image="train:1")["image"].startswith("The rules of NLP allow the images")


def test_it_is_pulled_by_a_credential_of_the_team_or_above(
    lead: User, admin: User, org: Team, team: Team
) -> None:
    registry(admin, org)
    registry(lead, team, "token")
    told = refused(lead, team, pull_credential="nlp/pull")["pull_credential"]
    assert told.endswith("of NLP or of a team above it. There are: acme/pull.")
    row = make(lead, team, pull_credential="acme/pull")
    assert row.versions.get().pull_credential_name == "acme/pull"


def test_one_whose_credential_was_deleted_keeps_its_name(lead: User, team: Team) -> None:
    credential = registry(lead, team)
    row = make(lead, team, pull_credential="nlp/pull")
    delete_credential(by=actor(lead), credential=credential)
    version = row.versions.get()
    assert (version.pull_credential, version.pull_credential_name) == (None, "nlp/pull")


def test_a_credential_that_was_made_again_is_pulled_by_in_a_new_version(lead: User, team: Team) -> None:
    credential = registry(lead, team)
    row = make(lead, team, pull_credential="nlp/pull")
    delete_credential(by=actor(lead), credential=credential)
    again = registry(lead, team)
    values = {"image": IMAGE, "pull_credential": "nlp/pull"}
    made = add_version(by=actor(lead), environment=row, values=values)
    assert (made.number, made.pull_credential) == (2, again)
    assert add_version(by=actor(lead), environment=row, values=values).number == 2


def test_an_archived_one_gets_no_version_until_it_is_restored(lead: User, team: Team) -> None:
    row = make(lead, team)
    archive_environment(by=actor(lead), environment=row, archived=True)
    with pytest.raises(Conflict, match="is archived: restore it"):
        add_version(by=actor(lead), environment=row, values={"image": "train:2"})
    archive_environment(by=actor(lead), environment=row, archived=False)
    assert add_version(by=actor(lead), environment=row, values={"image": "train:2"}).number == 2


def test_one_in_which_something_ran_is_not_deleted(lead: User, owner: User, team: Team) -> None:
    row = make(lead, team)
    asked = SubmissionRequest.parse({"name": "bert", "team": "nlp", "environment": "pytorch"})
    submit(by=actor(owner), requests=[asked])
    with pytest.raises(Conflict, match="1 workload names nlp/pytorch: archive it instead"):
        delete_environment(by=actor(lead), environment=row)
    assert EnvironmentVersion.objects.count() == 1


def test_one_that_was_never_run_goes_with_its_versions(lead: User, team: Team) -> None:
    delete_environment(by=actor(lead), environment=make(lead, team))
    assert not EnvironmentVersion.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_only_leads_change_them(lead: User, team: Team, role: Role) -> None:
    other, row = member(team, role), make(lead, team)
    for act in (
        lambda: make(other, team, "jax"),
        lambda: add_version(by=actor(other), environment=row, values={"image": "train:2"}),
        lambda: archive_environment(by=actor(other), environment=row, archived=True),
        lambda: delete_environment(by=actor(other), environment=row),
    ):
        with pytest.raises(NotAllowed):
            act()


def test_a_lead_below_does_not_change_those_above(admin: User, lead: User, org: Team, team: Team) -> None:
    row = make(admin, org)
    # The organisation is above what a lead of a team sees.
    with pytest.raises(NotVisible):
        add_version(by=actor(lead), environment=row, values={"image": "train:2"})


def test_they_are_seen_below_their_team_and_not_beside_it(
    lead: User, admin: User, org: Team, team: Team, other_team: Team
) -> None:
    below = member(make_team(team, "Speech"), Role.VIEWER)
    beside = member(other_team, Role.LEAD)
    make(admin, org, "base")
    make(lead, team, "pytorch")

    def seen(user: User) -> list[str]:
        return sorted(Environment.objects.visible_to(user).values_list("name", flat=True))

    assert seen(below) == seen(lead) == seen(admin) == ["base", "pytorch"]
    assert seen(beside) == ["base"]
    assert seen(make_user()) == []


def test_a_team_has_at_most_so_many(lead: User, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_OF_TEAM", 1)
    make(lead, team)
    with pytest.raises(Conflict, match="NLP has 1 environment, the most that are allowed"):
        make(lead, team, "jax")
