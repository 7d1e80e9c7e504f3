"""Groups that are asked for again between sign-ins."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber import encrypted, encryption
from chamber.encrypted import By
from chamber.logs import Seldom
from chamber.models import User
from chamber.oidc import sync
from chamber.oidc.providers import Provider
from chamber.people import actions as people
from chamber.tests.oidc.conftest import Configure
from chamber.tests.oidc.idp import Idp, sign_in
from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent, Binding, Role, Team

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SYSTEM = Actor.system("test")


@pytest.fixture(autouse=True)
def _all_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_told", Seldom(every_seconds=0))


@pytest.fixture
def synced(configure: Configure, nlp: Team) -> Provider:
    provider = configure(allowed_groups=["gpu-users", "others"], sync_minutes=30)
    actions.set_provider_role(by=SYSTEM, provider="acme", name="gpu-users", team=nlp, role=Role.RESEARCHER)
    return provider


@pytest.fixture
def ada(idp: Idp, synced: Provider) -> tuple[User, Client]:
    idp.person("ada", preferred_username="ada", groups=["gpu-users"])
    client, _ = sign_in(idp, "ada")
    return User.objects.get(), client


def later(minutes: int = 31) -> int:
    return sync.sync(timezone.now() + timedelta(minutes=minutes))


def roles() -> list[str]:
    return list(Binding.objects.filter(group__user__username="ada").values_list("role", flat=True))


def is_in(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def test_a_group_that_was_left_takes_its_role_along(idp: Idp, ada: tuple[User, Client]) -> None:
    assert roles() == ["researcher"]
    assert later(20) == 0, "not due yet"
    idp.person("ada", preferred_username="ada", groups=["others"])
    assert later() == 1
    assert roles() == []
    assert is_in(ada[1]), "still somebody who is let in"
    assert later() == 1, "by the token that is good now"


def test_who_is_let_in_no_more_can_do_nothing(idp: Idp, ada: tuple[User, Client]) -> None:
    idp.person("ada", preferred_username="ada", groups=[])
    later()
    assert roles() == []
    assert not is_in(ada[1])
    assert not SocialToken.objects.exists()
    assert AuditEvent.objects.get(action="person.not-let-in").after["why"] == "not allowed"


def test_what_the_provider_has_ended_ends_here(idp: Idp, ada: tuple[User, Client]) -> None:
    idp.revoke("ada")
    later()
    assert roles() == []
    assert not is_in(ada[1])
    assert AuditEvent.objects.get(action="person.not-let-in").after["why"] == "ended there"
    assert later() == 0


def test_a_provider_that_is_away_takes_nothing_away(
    idp: Idp, ada: tuple[User, Client], caplog: pytest.LogCaptureFixture
) -> None:
    idp.away = True
    assert later() == 1
    assert roles() == ["researcher"]
    assert is_in(ada[1])
    assert "are not known anew" in caplog.text
    assert later(33) == 0, "it is not asked at once again"
    idp.away = False
    assert later(40) == 1


def test_a_new_refresh_token_is_kept_whatever_fails_after_it(
    idp: Idp, ada: tuple[User, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"access_token": "of no use", "refresh_token": "the second"}
    monkeypatch.setattr(sync, "refreshed", lambda *_: answer)
    later()
    assert roles() == ["researcher"], "it is not known what they are in"
    assert encryption.decrypt(SocialToken.objects.get().token_secret) == "the second"


def test_a_run_of_the_duty_ends_in_time(
    idp: Idp, ada: tuple[User, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    idp.person("bob", groups=["gpu-users"])
    sign_in(idp, "bob")
    monkeypatch.setattr(sync, "LONGEST_SECONDS", -1.0)
    assert later() == 0
    monkeypatch.setattr(sync, "LONGEST_SECONDS", 20.0)
    assert later() == 2


def test_another_person_s_answer_changes_nothing(
    idp: Idp, ada: tuple[User, Client], caplog: pytest.LogCaptureFixture
) -> None:
    SocialAccount.objects.update(uid="bob")
    later()
    assert roles() == ["researcher"]
    assert "it tells is of another person" in caplog.text


def test_who_is_disabled_is_not_asked_for(idp: Idp, ada: tuple[User, Client]) -> None:
    people.disable(by=SYSTEM, user=ada[0])
    asked = len(idp.asked)
    later()
    assert len(idp.asked) == asked
    assert not SocialToken.objects.exists()


def test_two_processes_do_not_ask_for_the_same(
    idp: Idp, ada: tuple[User, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(sync, "_look", lambda *args: looked.append(args))
    assert later() == 1
    assert later() == 0
    assert len(looked) == 1


def test_tokens_are_kept_encrypted_and_where_they_are_of_use_only(
    idp: Idp, ada: tuple[User, Client], configure: Configure, settings: Settings
) -> None:
    token = SocialToken.objects.get()
    assert token.token == ""
    assert token.token_secret.startswith("gAAAA")
    settings.ENCRYPTION_KEYS = ["a-new-key-that-an-operator-made-9876543210"]
    assert encrypted.renew() == {By.OLDER: 1}
    assert encrypted.secrets() == {By.NEWEST: 1}
    assert later() == 1
    configure(allowed_groups=["gpu-users"])
    sign_in(idp, "ada")
    assert not SocialToken.objects.exists()


def test_a_provider_that_is_configured_no_more_is_not_asked(
    idp: Idp, ada: tuple[User, Client], settings: Settings
) -> None:
    settings.IDENTITY_PROVIDERS = ()
    assert later() == 0
