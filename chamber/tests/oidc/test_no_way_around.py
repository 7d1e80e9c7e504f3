"""Who signs in by a provider only is let in by nothing else: neither by a mailed link nor by a passkey alone."""

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.factors.passkeys import ALONE
from chamber.models import User
from chamber.people import actions as people
from chamber.tests.factors.conftest import with_passkey
from chamber.tests.factors.devices import Passkey
from chamber.tests.factors.test_sign_in import by_passkey
from chamber.tests.oidc.conftest import PHRASE
from chamber.tests.oidc.idp import Idp, sign_in
from teams.models import AuditEvent
from teams.tests.factories import actor

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("provider", "acme"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def forgotten(settings: Settings) -> Any:
    settings.MAIL = True
    answer = Client().post("/sign-in/forgotten/", {"email": "ada@acme.example"})
    assert mailing.settle()
    return answer


def test_no_password_is_mailed_for(idp: Idp, settings: Settings) -> None:
    sign_in(idp, "ada")
    answer = forgotten(settings)
    assert answer.status_code == 302, "the same is said"
    assert mail.outbox == []
    ada = User.objects.get()
    ada.set_password(PHRASE)
    ada.save()
    forgotten(settings)
    assert [each.to for each in mail.outbox] == [["ada@acme.example"]]


def test_an_admin_may_give_a_link_for_a_password(idp: Idp, olga: User) -> None:
    sign_in(idp, "ada")
    ada = User.objects.get(username="ada.l")
    people.use_link(secret=people.new_link(by=actor(olga), user=ada).secret, password=PHRASE)
    client = Client()
    client.post("/sign-in/", {"login": "ada.l", "password": PHRASE})
    assert client.get("/settings/").status_code == 200


def test_a_passkey_is_a_second_factor_and_signs_in_nobody_alone(idp: Idp) -> None:
    page, _ = sign_in(idp, "ada")
    key = Passkey()
    form = page.get("/settings/factors/passkey/").content.decode()
    assert not re.search(r'name="alone"', form)
    assert with_passkey(page, key, alone=True).status_code == 200
    row = Authenticator.objects.get(type="webauthn")
    assert row.data[ALONE] is False
    row.data[ALONE] = True  # as of a time when they had a password
    row.save()
    client, status = by_passkey(key)
    assert (status, client.get("/settings/").status_code) == (422, 302)
    assert AuditEvent.objects.filter(action="person.signed-in").count() == 1
    ada = User.objects.get()
    ada.set_password(PHRASE)
    ada.save()
    assert by_passkey(key)[1] == 302
