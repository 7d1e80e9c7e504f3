"""Second factors on the page Settings: added, listed, named and removed, and noted in the trail."""

import re

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.factors.reading import has_factor
from chamber.models import User
from chamber.tests.factors.conftest import PHRASE, asked, with_app, with_passkey
from chamber.tests.factors.devices import Passkey, code_of
from teams.models import AuditEvent

APP = "/settings/factors/app/"


def told(action: str) -> list[tuple[str, str | None, object, object]]:
    rows = AuditEvent.objects.filter(action=action)
    return list(rows.values_list("actor", "address", "before", "after"))


def secret_of(page: Client) -> str:
    text = page.get(APP).content.decode()
    assert 'src="data:image/svg+xml;base64,' in text
    found = re.search(r'<code id="key">(\w+)</code>', text)
    assert found
    return found.group(1)


def test_an_app_is_added_by_a_code_that_it_shows(page: Client, ada: User) -> None:
    secret = secret_of(page)
    wrong = page.post(APP, {"code": "000000" if code_of(secret) != "000000" else "000001"})
    assert wrong.status_code == 422
    assert secret in wrong.content.decode(), "a mistyped code costs no new scan"
    answer = page.post(APP, {"code": code_of(secret)})
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(re.findall(r"^\D*(\d{4} \d{4})$", answer.content.decode(), re.MULTILINE)) == 10
    listed = page.get("/settings/factors/").content.decode()
    assert "Codes of six digits" in listed
    assert "10 of 10 left" in listed
    assert told("person.factor-added") == [("ada", "127.0.0.1", {}, {"factor": "authenticator app"})]
    assert page.get(APP).status_code == 409, "one is enough"


def test_secrets_are_stored_encrypted_also_while_an_app_is_added(page: Client, ada: User) -> None:
    secret = secret_of(page)
    assert secret not in repr(dict(page.session))
    page.post(APP, {"code": code_of(secret)})
    app, codes = Authenticator.objects.order_by("pk")
    assert secret not in repr(app.data)
    assert codes.data["seed"].startswith("gAAAA"), "a Fernet token"


def test_a_code_that_added_the_app_signs_nobody_in(page: Client, ada: User) -> None:
    secret = secret_of(page)
    code = code_of(secret)
    page.post(APP, {"code": code})
    other = Client()
    other.post("/sign-in/", {"login": "ada", "password": PHRASE})
    assert other.post("/sign-in/factor/", {"code": code}).status_code == 422


def test_a_passkey_is_added_named_and_removed(page: Client, ada: User) -> None:
    answer = with_passkey(page, Passkey())
    assert "Recovery codes" in answer.content.decode()
    key = Authenticator.objects.get(type="webauthn")
    listed = page.get("/settings/factors/").content.decode()
    assert "laptop" in listed
    assert "without the password" in listed
    page.post(f"/settings/factors/{key.pk}/rename/", {"name": "  key on\tthe ring "})
    assert told("person.factor-renamed") == [
        ("ada", "127.0.0.1", {"name": "laptop"}, {"name": "key on the ring"})
    ]
    assert page.post(f"/settings/factors/{key.pk}/remove/").status_code == 302
    assert not Authenticator.objects.exists(), "the recovery codes stand in for nothing any more"
    assert told("person.factor-removed") == [("ada", "127.0.0.1", {"factor": "passkey key on the ring"}, {})]


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "lap\u202etop"])
def test_a_name_of_a_passkey_is_one_that_can_be_seen(page: Client, ada: User, name: str) -> None:
    with_passkey(page, Passkey())
    key = Authenticator.objects.get(type="webauthn")
    assert page.post(f"/settings/factors/{key.pk}/rename/", {"name": name}).status_code == 422
    key.refresh_from_db()
    assert key.data["name"] == "laptop"


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"id": 1}',
        "{" * 5000,
        "9" * 5000,
        '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "AA", '
        '"attestationObject": "gICA"}, "clientExtensionResults": {}}',
        '{"id": "AA", "rawId": "AA", "response": {"clientDataJSON": "e30", "attestationObject": "%s"}}'
        % ("gYGB" * 3000),
    ],
)
def test_what_no_browser_sends_is_refused_in_words(page: Client, ada: User, credential: str) -> None:
    page.get("/settings/factors/passkey/")
    answer = page.post("/settings/factors/passkey/", {"name": "laptop", "credential": credential})
    assert answer.status_code == 422
    assert "passkey" in answer.content.decode()
    assert not Authenticator.objects.exists()


def test_an_answer_to_another_page_adds_no_passkey(page: Client, ada: User) -> None:
    first = asked(page.get("/settings/factors/passkey/"))
    page.get("/settings/factors/passkey/")
    answer = page.post(
        "/settings/factors/passkey/", {"name": "laptop", "credential": Passkey().create(first)}
    )
    assert answer.status_code == 422
    assert not has_factor(ada)


def test_a_key_that_asks_for_no_pin_goes_with_the_password_only(page: Client, ada: User) -> None:
    assert with_passkey(page, Passkey(verifies=False)).status_code == 422
    assert with_passkey(page, Passkey(verifies=False), alone=False).status_code == 200
    assert "beside the password" in page.get("/settings/factors/").content.decode()


def test_a_passkey_of_another_site_is_not_taken(page: Client, ada: User) -> None:
    assert with_passkey(page, Passkey(origin="https://testserver.example")).status_code == 422


def test_one_person_has_so_many_passkeys(page: Client, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.factors.actions.MOST_PASSKEYS", 1)
    assert with_passkey(page, Passkey()).status_code == 200
    answer = with_passkey(page, Passkey())
    assert answer.status_code == 422
    assert "the most that are allowed" in answer.content.decode()


def test_new_recovery_codes_end_the_old_ones(page: Client, ada: User) -> None:
    old = with_app(ada)
    answer = page.post("/settings/factors/codes/")
    new = re.findall(r"(\d{4}) (\d{4})\n", answer.content.decode())
    assert len(new) == 10
    assert {"".join(each) for each in new}.isdisjoint(old)
    assert told("person.recovery-codes-made") == [("ada", "127.0.0.1", {}, {"codes": 10})]
    assert page.get("/settings/factors/codes/").headers["Location"] == "/settings/factors/"


def test_recovery_codes_need_a_factor_for_which_they_stand_in(page: Client, ada: User) -> None:
    assert page.post("/settings/factors/codes/").status_code == 409


def test_nobody_touches_the_factors_of_somebody_else(page: Client, ada: User, olga: User) -> None:
    with_app(olga)
    theirs = Authenticator.objects.get(user=olga, type="totp")
    for act in ("rename", "remove"):
        assert page.post(f"/settings/factors/{theirs.pk}/{act}/", {"name": "x"}).status_code == 404
    assert has_factor(olga)
    assert page.post(f"/settings/factors/{10**30}/remove/").status_code == 404


def test_who_did_not_change_the_factors_learns_of_it_by_mail(
    page: Client, ada: User, settings: Settings
) -> None:
    settings.MAIL = True
    with_passkey(page, Passkey())
    page.post(f"/settings/factors/{Authenticator.objects.get(type='webauthn').pk}/remove/")
    assert mailing.settle()
    bodies = [message.body for message in mail.outbox]
    assert [body.partition(" Your")[0] for body in bodies] == [
        "A passkey was added.",
        "A second factor was removed.",
    ]
    assert {message.to[0] for message in mail.outbox} == {ada.email}


def test_an_organisation_admin_removes_the_factors_of_who_lost_them(
    page: Client, ada: User, olga: User
) -> None:
    with_app(ada)
    admin = Client()
    admin.force_login(olga)
    shown = admin.get("/people/ada/").content.decode()
    assert "Authenticator app" in shown
    assert "Remove all second factors of ada?" in shown
    assert (
        "1 second factor of ada removed"
        in admin.post("/people/ada/reset-factors/", follow=True).content.decode()
    )
    assert not Authenticator.objects.exists()
    assert page.get("/settings/").status_code == 302, "who has the lost telephone is out"
    [(who, address, before, after)] = told("person.factors-reset")
    assert (who, address, before) == ("olga", "127.0.0.1", {"factors": ["authenticator app"]})
    assert after == {"factors": [], "sessions": 0}
    assert "has no second factor" in admin.post("/people/ada/reset-factors/", follow=True).content.decode()


def test_an_admin_removes_their_own_on_the_page_settings_only(page: Client, olga: User) -> None:
    with_app(olga)
    page.force_login(olga)
    assert "/people/olga/reset-factors/" not in page.get("/people/olga/").content.decode()
    page.post("/people/olga/reset-factors/")
    assert has_factor(olga)


def test_the_page_people_shows_an_admin_who_lacks_a_factor(page: Client, ada: User, olga: User) -> None:
    with_app(ada)
    page.force_login(olga)
    for factor, shown in (("yes", ["ada"]), ("no", ["olga"]), ("", ["ada", "olga"])):
        text = page.get(f"/people/?factor={factor}").content.decode()
        assert re.findall(r'href="/people/(\w+)/"', text) == shown


def test_a_server_without_a_name_says_that_it_has_no_passkeys(page: Client, ada: User) -> None:
    text = page.get("/settings/factors/", headers={"Host": "127.0.0.1:8000"}).content.decode()
    assert "Browsers make passkeys for names only" in text
    assert "Add a passkey" not in text
    assert (
        "Sign in with a passkey"
        not in Client().get("/sign-in/", headers={"Host": "127.0.0.1:8000"}).content.decode()
    )
