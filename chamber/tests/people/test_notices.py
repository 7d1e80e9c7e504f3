"""Mails about one's own account: who did not do it learns of it."""

import time
from collections.abc import Iterator

import pytest
from allauth.core.context import request_context
from django.core import mail
from django.core.cache import cache
from django.core.mail import EmailMultiAlternatives
from django.test import Client, RequestFactory
from django.test.client import MULTIPART_CONTENT
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.models import User
from chamber.people import actions, notices
from chamber.tests.factors.conftest import PHRASE, SECRET, begun, with_app
from chamber.tests.factors.devices import code_of
from teams.models import Role, Team
from teams.tests.factories import actor, make_org, member

NEXT = "harbour lantern quilt 8"


@pytest.fixture(autouse=True)
def _mailed(settings: Settings) -> Iterator[None]:
    cache.clear()
    settings.MAIL = True
    yield
    assert mailing.settle()


@pytest.fixture
def acme(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def ada(acme: Team) -> User:
    return member(acme, Role.LEAD, "ada", password=PHRASE)


def told() -> list[str]:
    """Return the subjects of what was mailed to the person, and forget them."""
    assert mailing.settle()
    assert {to for message in mail.outbox for to in message.to} <= {"ada@example.org"}
    found = [str(message.subject) for message in mail.outbox]
    mail.outbox.clear()
    return found


def signed_in(client: Client, **headers: str) -> Client:
    answer = client.post("/sign-in/", {"login": "ada", "password": PHRASE}, **headers)  # type: ignore[arg-type]
    assert answer.status_code == 302
    return client


def test_a_changed_password_is_told(ada: User) -> None:
    page = Client()
    page.force_login(ada)
    page.post("/settings/password/", {"oldpassword": PHRASE, "password1": NEXT, "password2": NEXT})
    assert told() == ["The password of your account was changed"]


def test_a_refused_password_is_not_told(ada: User) -> None:
    page = Client()
    page.force_login(ada)
    page.post("/settings/password/", {"oldpassword": "wrong", "password1": NEXT, "password2": NEXT})
    assert told() == []


def test_a_password_that_a_link_set_is_told_and_one_of_an_invitation_is_not(ada: User, acme: Team) -> None:
    olga = member(acme, Role.ORG_ADMIN, "olga")
    for made, expected in (
        (actions.new_link(by=actor(olga), user=ada), ["The password of your account was changed"]),
        (actions.invite(by=actor(olga), username="ivy", email="ivy@example.org", mailed=True), []),
    ):
        page = Client()
        there = page.get(f"/welcome/{made.secret}/").headers["Location"]
        assert page.post(there, {"password1": NEXT, "password2": NEXT}).status_code == 302
        assert told() == expected


def test_a_password_that_a_mailed_link_set_is_told(ada: User) -> None:
    page = signed_in(Client())
    page.post("/sign-in/forgotten/", {"email": "ada@example.org"})
    assert mailing.settle()
    link = next(word for word in str(mail.outbox[-1].body).split() if "/forgotten/" in word)
    there = page.get(link, follow=True).request["PATH_INFO"]
    assert page.post(there, {"password1": NEXT, "password2": NEXT}).status_code == 302
    assert told()[-1] == "The password of your account was changed"


def test_a_token_is_told_whatever_made_it(ada: User) -> None:
    page = Client()
    page.force_login(ada)
    asked = {"name": "ci", "scope": "read"}
    sent = {"username": "ada", "password": PHRASE, **asked}
    for client, path, body, kind in (
        (page, "/tokens/", {"name": "laptop", "scope": "read", "expires_in_days": 9}, MULTIPART_CONTENT),
        (page, "/api/v1/tokens/", asked, "application/json"),
        (Client(), "/api/v1/login/", sent, "application/json"),
    ):
        cache.clear()
        client.post(path, body, content_type=kind)
    assert mailing.settle()
    assert "laptop, scope read, good until" in mail.outbox[0].body
    assert told() == ["An access token of your account was made"] * 3


def test_many_tokens_are_one_mail_and_the_next_one_tells_how_many_there_were(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Client()
    page.force_login(ada)

    def make(name: str, scope: str = "read") -> None:
        page.post("/tokens/", {"name": name, "scope": scope, "expires_in_days": 9})

    for number, scope in enumerate(("read", "submit", "admin", "read")):
        make(f"t{number}", scope)
    assert mailing.settle()
    assert "t0, scope read" in str(mail.outbox[0].body)
    assert "Those of the same 10 minutes are not mailed one by one" in str(mail.outbox[0].body)
    assert len(told()) == 1
    now = time.time()
    monkeypatch.setattr("chamber.counts.time.time", lambda: now + notices.TOKENS_EVERY_SECONDS)
    make("later")
    assert mailing.settle()
    assert "Since the last mail of this kind 3 others were made, their widest scope admin." in " ".join(
        str(mail.outbox[0].body).split()
    )
    assert len(told()) == 1
    monkeypatch.setattr("chamber.counts.time.time", lambda: now + 2 * notices.TOKENS_EVERY_SECONDS)
    make("last")
    assert mailing.settle()
    assert "Since the last mail" not in str(mail.outbox[0].body)


def test_a_sign_in_with_another_browser_is_told_once_and_the_first_of_all_is_not(ada: User) -> None:
    laptop = signed_in(Client())
    assert told() == [], "who signs in for the first time has no other browser"
    laptop.post("/sign-out/")
    signed_in(laptop)
    assert told() == []
    agent = "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0"
    stranger = signed_in(Client(), HTTP_USER_AGENT=agent)
    assert mailing.settle()
    (sent,) = mail.outbox
    assert "from 127.0.0.1, with Firefox on Linux." in str(sent.body)
    assert isinstance(sent, EmailMultiAlternatives)
    assert [part[1] for part in sent.alternatives] == ["text/html"]
    assert told() == ["A new browser signed in to your account"]
    stranger.post("/sign-out/")
    signed_in(stranger)
    assert told() == []


def test_a_cookie_that_was_not_signed_here_makes_no_browser_known(ada: User) -> None:
    signed_in(Client())
    forged = Client()
    forged.cookies["devices"] = ada.pk.hex
    signed_in(forged)
    assert told() == ["A new browser signed in to your account"]


def test_a_used_recovery_code_is_told(ada: User) -> None:
    code = with_app(ada)[0]
    begun().post("/sign-in/factor/", {"code": code})
    assert mailing.settle()
    assert "9 are left" in mail.outbox[0].body
    assert told() == ["A recovery code of your account was used"]


def test_a_code_that_is_tried_again_is_told_and_a_wrong_one_is_not(ada: User) -> None:
    with_app(ada)
    code = code_of(SECRET)
    assert begun().post("/sign-in/factor/", {"code": code}).status_code == 302
    told()
    assert begun().post("/sign-in/factor/", {"code": code}).status_code == 422
    assert begun().post("/sign-in/factor/", {"code": "000000"}).status_code == 422
    assert told() == ["A code of your account was tried twice"]


def test_mails_that_others_cause_keep_no_notice_back_and_notices_are_bounded(ada: User) -> None:
    for _ in range(8):
        Client().post("/sign-in/forgotten/", {"email": "ada@example.org"})
    told()
    request = RequestFactory().get("/")
    request.user = ada
    with request_context(request):
        for _ in range(notices.NOTICES_PER_HOUR + 3):
            notices.password_changed(request, ada)
    assert len(told()) == notices.NOTICES_PER_HOUR
