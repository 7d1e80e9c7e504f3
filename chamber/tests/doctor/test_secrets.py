"""`chamber doctor` says which stored secrets the keys of now do not read, and who has no second factor."""

import pytest
from pytest_django.fixtures import Settings

from chamber.doctor import people, secrets
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.tests.factors.conftest import with_app
from teams import actions
from teams.actors import Actor
from teams.models import Role
from teams.tests.factories import actor, make_org, make_user, member
from workloads.credentials.actions import create_credential
from workloads.models import CredentialKind

pytestmark = pytest.mark.django_db
NEW = "a-new-key-that-an-operator-made-9876543210"


def test_secrets_of_the_newest_key_are_no_news() -> None:
    with_app(make_user("ada", password="difference engine"))
    assert list(secrets.stored()) == []


def test_an_older_key_is_told_and_a_lost_one_is_wrong(settings: Settings) -> None:
    with_app(make_user("ada", password="difference engine"))
    settings.ENCRYPTION_KEYS = [NEW]
    [fact] = secrets.stored()
    assert isinstance(fact, Fact)
    assert fact.sentence.startswith("2 stored secrets are encrypted with an older key")
    settings.SECRET_KEY = "another-key-that-nobody-gave-to-it-0123456789"
    [finding] = secrets.stored()
    assert isinstance(finding, DoctorFinding)
    assert finding.problem == "2 stored secrets cannot be read: another key encrypted them."
    assert "CHAMBER_ENCRYPTION_KEYS" in finding.advice


def test_credentials_are_told_by_their_keys(settings: Settings) -> None:
    settings.CREDENTIALS_KEYS = [NEW]
    assert list(secrets.credentials()) == []
    create_credential(
        by=actor(make_user("ada")), name="hf", kind=CredentialKind.TOKEN, content={"token": "value"}
    )
    assert list(secrets.credentials()) == []
    other = "another-key-that-nobody-gave-to-it-0123456789"
    settings.CREDENTIALS_KEYS = [other, NEW]
    [fact] = secrets.credentials()
    assert isinstance(fact, Fact)
    assert fact.sentence == ("1 credential is encrypted with an older key; `chamber reencrypt` renews that.")
    settings.CREDENTIALS_KEYS = [other]
    [finding] = secrets.credentials()
    assert isinstance(finding, DoctorFinding)
    assert finding.problem == "1 credential cannot be read: another key encrypted it."
    settings.CREDENTIALS_KEYS, settings.GIVEN_SECRET_KEY = [], NEW
    [finding] = secrets.credentials()
    assert isinstance(finding, DoctorFinding)
    assert "there is no key for credentials" in finding.problem
    assert "CHAMBER_CREDENTIALS_KEY_FILE" in finding.advice


def test_doctor_tells_how_many_lack_a_second_factor() -> None:
    acme = make_org("Acme")
    with_app(member(acme, Role.ORG_ADMIN, "olga"))
    assert list(people.second_factors()) == []
    member(acme, Role.ORG_ADMIN, "otto")
    [fact] = people.second_factors()
    assert fact.sentence.startswith("1 organisation admin has no second factor")
    actions.require_second_factor(by=Actor.system("test"), version=0, required=True, grace_days=3)
    first, _ = people.second_factors()
    assert first.sentence.startswith("1 person lacks the second factor that is required from 2")
