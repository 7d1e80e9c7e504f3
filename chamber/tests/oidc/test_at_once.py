"""Two at once, in real threads with connections of their own; and no network inside a transaction."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connection
from django.test import Client
from django.utils import timezone

from chamber.models import User
from chamber.oidc import admission, sync
from chamber.oidc.asking import BoundedSession
from chamber.oidc.claims import Claims
from chamber.oidc.providers import Provider
from chamber.people import actions as people
from chamber.tests.oidc.conftest import PHRASE, Configure
from chamber.tests.oidc.idp import Idp, sign_in
from chamber.tests.people.test_at_once import at_once
from teams import actions
from teams.actors import Actor
from teams.models import Binding, Role, Team
from teams.tests.factories import actor, make_user

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SYSTEM = Actor.system("test")


def claims(subject: str = "ada", **values: Any) -> Claims:
    return Claims(subject=subject, email=f"{subject}@acme.example", username="ada", **values)


def test_of_two_first_sign_ins_at_once_one_makes_the_account(provider: Provider, acme: Team) -> None:
    results = at_once(*(lambda: admission.admit(provider, claims()) for _ in range(3)))
    assert {type(result) for result in results} == {User}, results
    assert (User.objects.count(), SocialAccount.objects.count()) == (1, 1)


def test_two_of_the_same_name_at_once_are_two(provider: Provider, acme: Team) -> None:
    at_once(*(lambda each=each: admission.admit(provider, claims(each)) for each in ("ada", "bob")))
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "ada-2"}


def test_of_two_who_take_over_one_account_at_once_one_does(configure: Configure, acme: Team) -> None:
    provider = configure(allowed_domains=["acme.example"], link_by_email=True)
    make_user("ada", email="ada@acme.example", password=PHRASE)
    both = [claims("ada"), Claims(subject="mallory", email="ada@acme.example", username="m")]
    results = at_once(*(lambda each=each: admission.admit(provider, each) for each in both))
    assert sorted(type(result).__name__ for result in results) == ["NotLetIn", "User"]
    assert SocialAccount.objects.count() == 1


def test_a_role_that_is_taken_away_while_somebody_signs_in_is_nobody_s(
    configure: Configure, olga: User, nlp: Team
) -> None:
    provider = configure(allowed_groups=["*"])

    def given(role: Role | None) -> object:
        by = actor(olga)
        return actions.set_provider_role(by=by, provider="acme", name="gpu", team=nlp, role=role)

    for _ in range(4):
        given(Role.LEAD)
        results = at_once(
            lambda: given(None),
            lambda: admission.admit(provider, claims(groups=frozenset({"gpu"}))),
        )
        assert results[0] is None
        assert isinstance(results[1], User), results
        assert not Binding.objects.filter(group__isnull=False).exists()


def test_of_two_admins_put_out_at_once_by_provider_and_by_hand_one_is_left(
    configure: Configure, olga: User, acme: Team
) -> None:
    provider = configure(allowed_groups=["*"])
    actions.set_provider_role(by=SYSTEM, provider="acme", name="admins", team=acme, role=Role.ORG_ADMIN)
    ada = admission.admit(provider, claims(groups=frozenset({"admins"})))
    results = at_once(
        lambda: admission.admit(provider, claims()),
        lambda: people.disable(by=actor(ada), user=olga),
    )
    olga.refresh_from_db()
    is_admin = ada.groups.exists()
    assert olga.is_active or is_admin, results


def test_no_provider_is_asked_inside_a_transaction(
    idp: Idp, configure: Configure, nlp: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[bool] = []
    request = BoundedSession.request

    def watched(self: BoundedSession, *args: Any, **kwargs: Any) -> Any:
        inside.append(connection.in_atomic_block)
        return request(self, *args, **kwargs)

    monkeypatch.setattr(BoundedSession, "request", watched)
    configure(allowed_groups=["*"], sync_minutes=30)
    client, _ = sign_in(idp, "ada")
    assert sync.sync(timezone.now() + timedelta(minutes=31)) == 1
    client.post("/sign-out/")
    token = idp.key.sign({"iss": idp.url})
    Client().post("/sign-in/with/acme/ended/", {"logout_token": token})
    assert len(inside) >= 5
    assert not any(inside)
