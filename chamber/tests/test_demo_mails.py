"""Mails of the demo: kept where no server takes them, shown to its admins, and to nobody outside of the demo."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.mail import EmailMultiAlternatives
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.demo import mails
from chamber.models import User
from teams.models import Role, Team
from teams.tests.factories import make_org, member

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"


@pytest.fixture(autouse=True)
def _kept(settings: Settings, tmp_path: Path) -> None:
    cache.clear()
    settings.MAIL = settings.KEEPS_MAILS = True
    for name, value in mailing.settings_of("", kept_in=tmp_path / "mails").items():
        setattr(settings, name, value)


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def olga(acme: Team) -> Client:
    return on(member(acme, Role.ORG_ADMIN, "olga"))


def on(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def send(subject: str, text: str = "Hello.", html: str = "") -> None:
    message = EmailMultiAlternatives(subject, text, to=["ada@example.org"])
    if html:
        message.attach_alternative(html, "text/html")
    assert mailing.send(message)


def test_a_mailed_invitation_lets_its_reader_in_by_a_click_on_its_page(olga: Client) -> None:
    told = {"username": "ada", "email": "ada@example.org", "team": "acme", "role": "viewer"}
    made = olga.post("/people/", told).content.decode()
    assert "A link is mailed to ada@example.org." in made
    assert "/welcome/" not in made

    listed = olga.get("/settings/mails/").content.decode()
    address = re.search(r'href="(/settings/mails/[-0-9a-f]+/)"', listed)
    assert address is not None
    assert "ada@example.org" in listed
    answer = olga.get(address[1])
    link = re.search(r'href="http://testserver(/welcome/[^"]+)"', answer.content.decode())
    assert link is not None
    assert answer["Cache-Control"] == "no-store"

    ada = Client()
    page = ada.get(link[1], follow=True)
    passwords = {"password1": PHRASE, "password2": PHRASE}
    ada.post(page.redirect_chain[-1][0], passwords)
    assert ada.login(username="ada", password=PHRASE)


def test_the_newest_come_first_and_the_oldest_go(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mails, "MOST", 3)
    for number in range(5):
        send(f"Mail {number}")
    assert [mail.subject for mail in mails.heads(mails.newest_first())] == ["Mail 4", "Mail 3", "Mail 2"]
    shown = olga.get("/settings/mails/").content.decode()
    assert shown.index("Mail 4") < shown.index("Mail 2")
    assert "Mail 1" not in shown


def test_many_come_in_pages_and_none_is_a_page_that_says_so(olga: Client) -> None:
    assert "No mails yet" in olga.get("/settings/mails/").content.decode()
    for number in range(51):
        send(f"Mail {number}")
    assert "1 to 50 of 51" in olga.get("/settings/mails/").content.decode()
    second = olga.get("/settings/mails/?page=2").content.decode()
    assert "Mail 0" in second
    assert "Mail 1<" not in second
    with CaptureQueriesContext(connection) as made:
        olga.get("/settings/mails/")
    assert len(made) <= 12


def test_what_a_mail_holds_is_text_and_never_markup(olga: Client) -> None:
    send("<b>Bold</b>", "<script>one()</script> and https://example.org/a?b=c", "<script>two()</script>")
    (mail,) = mails.newest_first()
    shown = olga.get(f"/settings/mails/{mail}/").content.decode()
    assert "&lt;script&gt;one()" in shown
    assert "&lt;script&gt;two()" in shown
    assert "&lt;b&gt;Bold" in shown
    assert 'href="https://example.org/a?b=c"' in shown


def test_a_kept_mail_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    send("Secret")
    (file,) = (tmp_path / "mails").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_who_asks_for_a_new_password_is_told_where_the_demo_has_the_mail(olga: Client) -> None:
    User.objects.filter(username="olga").update(email="olga@acme.example")
    answer = Client().post("/sign-in/forgotten/", {"email": "olga@acme.example"}, follow=True)
    assert "an organisation admin finds it on the page Mails" in answer.content.decode()
    assert mailing.settle()


def test_outside_of_the_demo_there_is_no_page_and_nothing_is_kept(olga: Client, settings: Settings) -> None:
    send("Hello")
    (mail,) = mails.newest_first()
    assert 'href="/settings/mails/"' in olga.get("/").content.decode()
    settings.KEEPS_MAILS = False
    assert 'href="/settings/mails/"' not in olga.get("/").content.decode()
    assert olga.get("/settings/mails/").status_code == 404
    assert olga.get(f"/settings/mails/{mail}/").status_code == 404


@pytest.mark.parametrize(
    ("given", "backend"),
    [
        ({"CHAMBER_DEMO": "1"}, "chamber.demo.mails.KeptMailBackend True"),
        ({}, "django.core.mail.backends.dummy.EmailBackend False"),
        (
            {"CHAMBER_DEMO": "1", "CHAMBER_MAIL_URL": "smtp://mail"},
            "django.core.mail.backends.smtp.EmailBackend False",
        ),
    ],
)
def test_the_demo_alone_keeps_them_and_only_without_a_mail_server(
    given: dict[str, str], backend: str, tmp_path: Path
) -> None:
    told = "from chamber import settings; print(settings.EMAIL_BACKEND, settings.KEEPS_MAILS)"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("CHAMBER_")}
    done = subprocess.run(
        [sys.executable, "-c", told],
        env={**clean, "CHAMBER_DATA": str(tmp_path), **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == backend
