"""Making, replacing and deleting credentials: who may, what is stored, and what the trail has."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.encryption import UnreadableSecret
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from chamber.models import User
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, make_team, member
from workloads.credentials import actions, keys
from workloads.credentials.reading import credentials_for, shown, usable_in
from workloads.models import Credential, CredentialKind, NamedCredential
from workloads.tests.credentials.conftest import CONTENTS, KEY, MARKER
from workloads.tests.factories import make_workload


def make(
    by: User, name: str = "hf", kind: str = "token", team: Team | None = None, **content: Any
) -> Credential:
    return actions.create_credential(
        by=actor(by), name=name, kind=CredentialKind(kind), content=content or CONTENTS[kind], team=team
    )


@pytest.fixture
def lead(team: Team) -> User:
    return member(team, Role.LEAD, "lena")


def test_values_are_stored_encrypted_and_opened_again(owner: User) -> None:
    row = make(owner)
    row.refresh_from_db()
    assert MARKER not in str(Credential.objects.values().get())
    assert (row.reference, row.details, row.parts) == ("hf", {"variable": "HF_TOKEN"}, ["token"])
    assert keys.opened(row) == {"token": MARKER}


def test_values_belong_to_their_row_and_to_whose_it_is(owner: User, other_team: Team) -> None:
    mine, theirs = make(owner, "a"), make(member(other_team, Role.RESEARCHER), "b")
    mine.encrypted = theirs.encrypted
    with pytest.raises(UnreadableSecret):
        keys.opened(mine)
    theirs.owner = owner
    with pytest.raises(UnreadableSecret):
        keys.opened(theirs)


def test_the_trail_has_each_act_and_no_value(lead: User, team: Team) -> None:
    row = make(lead, team=team)
    actions.replace_values(by=actor(lead), credential=row, content={"token": f"{MARKER}-2"})
    actions.delete_credential(by=actor(lead), credential=row)
    events = list(AuditEvent.objects.order_by("at"))
    assert [event.action for event in events] == [
        "credential.created",
        "credential.replaced",
        "credential.deleted",
    ]
    assert {event.team_path for event in events} == {team.path}
    assert MARKER not in str(list(AuditEvent.objects.values()))
    assert events[0].after["parts"] == ["token"]


def test_other_values_replace_all_secrets_and_keep_what_is_none(owner: User) -> None:
    row = make(owner, "data", "s3", **{**CONTENTS["s3"], "session_token": "old"})
    row = actions.replace_values(
        by=actor(owner), credential=row, content={"access_key_id": "AK2", "secret_access_key": "new"}
    )
    assert keys.opened(row) == {"access_key_id": "AK2", "secret_access_key": "new"}
    assert row.details == {"endpoint_url": "https://s3.example.org"}
    with pytest.raises(Refusal, match="secret_access_key is missing"):
        actions.replace_values(by=actor(owner), credential=row, content={"access_key_id": "AK3"})


def test_a_teams_are_changed_by_its_leads_and_admins_only(owner: User, lead: User, team: Team) -> None:
    with pytest.raises(NotAllowed, match="Your role does not let you manage credentials in NLP"):
        make(owner, team=team)
    row = make(lead, team=team)
    for act in (actions.replace_values, actions.delete_credential):
        content = {"content": {"token": "x"}} if act is actions.replace_values else {}
        with pytest.raises(NotAllowed):
            act(by=actor(owner), credential=row, **content)
    outsider = member(make_team(team.parent or team, "Robots"), Role.ADMIN)
    with pytest.raises(NotVisible):
        actions.delete_credential(by=actor(outsider), credential=row)


def test_ones_own_are_changed_by_nobody_else(owner: User, org: Team) -> None:
    row = make(owner)
    with pytest.raises(NotAllowed, match="somebody else's"):
        actions.delete_credential(by=actor(member(org, Role.ORG_ADMIN)), credential=row)


def test_a_name_is_given_once_to_each(owner: User, lead: User, team: Team) -> None:
    make(owner)
    make(lead)
    make(lead, team=team)
    with pytest.raises(Conflict, match="You have a credential 'hf' already"):
        make(owner)
    with pytest.raises(Conflict, match="NLP has a credential 'hf' already"):
        make(lead, team=team)


@pytest.mark.parametrize("name", ["", "Hf", "1a", "a/b", "a-", "x" * 41, "é"])
def test_a_name_that_is_none_is_refused(owner: User, name: str) -> None:
    with pytest.raises(Refusal, match="is no name of a credential"):
        make(owner, name)


def test_there_are_so_many_at_most(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_OF_ONE", 1)
    make(owner, "a")
    with pytest.raises(Conflict, match="You have 1 credential, the most"):
        make(owner, "b")


def test_an_archived_team_gets_none(lead: User, team: Team) -> None:
    Team.objects.filter(pk=team.pk).update(archived_at=timezone.now())
    with pytest.raises(Conflict, match="NLP was archived"):
        make(lead, team=team)


def test_one_sees_ones_own_and_those_of_teams_one_submits_to_or_below(
    org: Team, team: Team, other_team: Team, owner: User, lead: User
) -> None:
    below = make_team(team, "Speech")
    admin = member(org, Role.ORG_ADMIN)
    rows = [
        make(owner, "own"),
        make(lead, "leads"),
        *(make(admin, each.slug, team=each) for each in (org, team, below, other_team)),
    ]
    assert {row.reference for row in credentials_for(owner)} == {
        "own",
        "acme/acme",
        "nlp/nlp",
        "speech/speech",
    }
    assert [row.reference for row in usable_in(owner, team)] == ["own", "acme/acme", "nlp/nlp"]
    assert not credentials_for(member(team, Role.VIEWER)).exists()
    assert credentials_for(admin).count() == len(rows) - 2


def test_it_is_shown_with_the_open_workloads_that_name_it(owner: User, team: Team) -> None:
    row = make(owner)
    workload = make_workload(team, owner, credentials=["hf"])
    NamedCredential.objects.create(workload=workload, position=0, credential=row)
    (found,) = shown([row], owner)
    assert (found.open_workloads, found.named_by) == (1, (workload.slug,))
    assert found.details == [("Variable", "HF_TOKEN")]
    assert MARKER not in repr(found)
    actions.delete_credential(by=actor(owner), credential=row)
    assert NamedCredential.objects.get().credential is None


def test_the_database_refuses_what_is_nobodys_or_of_both(owner: User, team: Team) -> None:
    row = make(owner)
    for change in ({"owner": None}, {"team": team}, {"kind": "other"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Credential.objects.filter(pk=row.pk).update(**change)


def test_without_a_key_none_is_made_in_production(owner: User, settings: Settings) -> None:
    settings.CREDENTIALS_KEYS, settings.GIVEN_SECRET_KEY = [], KEY
    with pytest.raises(keys.NoKey, match=r"no key that encrypts credentials\. Its operator can make one by"):
        make(owner)
    assert not Credential.objects.exists()


def test_for_development_a_key_is_made_once(owner: User, settings: Settings, tmp_path: Any) -> None:
    settings.CREDENTIALS_KEYS, settings.DATA_DIR = [], tmp_path / "data"
    row = make(owner)
    assert keys.opened(row) == {"token": MARKER}
    (path,) = (tmp_path / "data").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
