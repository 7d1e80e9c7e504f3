"""The pages of people, the page behind a link, and one's own settings."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.core import mail
from django.core.cache import cache, caches
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber import authentication, mailing
from chamber.models import AccountLink, User
from chamber.people import actions
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import actor, make_org, make_team, member

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"
TOKEN = r"[A-Za-z0-9]{64}"
"""Against forgery, another in each answer."""
NEXT = "harbour lantern quilt 8"


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)


@pytest.fixture
def page(client: Client, olga: User) -> Client:
    client.force_login(olga)
    return client


@pytest.fixture
def mailed(settings: Settings) -> Iterator[None]:
    """Mails are sent; none is under way any more when the next test begins."""
    settings.MAIL = True
    yield
    assert mailing.settle()


def told(action: str) -> list[tuple[str, str, str | None]]:
    rows = AuditEvent.objects.filter(action=action)
    return list(rows.values_list("actor", "target_name", "address"))


def sign_in(login: str, password: str, address: str = "127.0.0.1", agent: str = "") -> Client:
    client = Client(headers={"User-Agent": agent}, REMOTE_ADDR=address)
    assert client.post("/sign-in/", {"login": login, "password": password}).status_code == 302
    return client


def followed(link: str, password: str, again: str = "") -> int:
    """Open a link in another browser, send a password, and return the status; the secret is in no address then."""
    client = Client()
    there = client.get(link).headers["Location"]
    assert there == "/welcome/password/"
    return client.post(there, {"password1": password, "password2": again or password}).status_code


def test_the_link_of_an_invitation_is_shown_once_and_lets_its_reader_in(page: Client, acme: Team) -> None:
    nlp = make_team(acme, "NLP")
    answer = page.post("/people/", {"username": "ada", "name": "Ada L", "team": "nlp", "role": "lead"})
    text = answer.content.decode()
    link = text.partition('id="account-link">')[2].partition("<")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert Binding.objects.get(team=nlp).role == Role.LEAD
    assert "/welcome/" not in page.get("/people/").content.decode()
    assert "Welcome, Ada L" in Client().get(link, follow=True).content.decode()
    assert followed(link, "short", "short") == 422
    assert followed(link, PHRASE, NEXT) == 422
    assert followed(link, PHRASE) == 302
    assert Client().get(link).status_code == 410
    ada = sign_in("ada", PHRASE)
    assert ada.get("/people/").status_code == 200, "a lead sees people"


def test_an_invitation_is_mailed_where_there_is_a_server(page: Client, acme: Team, mailed: None) -> None:
    make_team(acme, "NLP")
    asked = {"username": "ada", "email": "ada@acme.example", "team": "nlp", "role": "lead"}
    answer = page.post("/people/", asked)
    assert "mailed to ada@acme.example" in answer.content.decode()
    assert "/welcome/" not in answer.content.decode()
    message: Any = mail.outbox[0]
    html = message.alternatives[0][0]
    link = next(word for word in message.body.split() if "/welcome/" in word)
    assert message.to == ["ada@acme.example"]
    assert message.subject == "Your account at Chamber of Acme"
    for text in (message.body, html):
        assert "olga invites you to Acme&#x27;s Chamber" in text.replace("'", "&#x27;").replace(
            "&#39;", "&#x27;"
        )
        assert "Your user name is ada. You are lead of NLP." in text
    assert link in html
    assert followed(link, PHRASE) == 302
    assert User.objects.get(username="ada").emailaddress_set.get().verified  # type: ignore[attr-defined]


def test_a_link_that_the_mail_server_refuses_is_shown(
    page: Client, mailed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(message: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("django.core.mail.EmailMultiAlternatives.send", refuse)
    text = page.post("/people/", {"username": "ada", "email": "ada@acme.example"}).content.decode()
    link = text.partition('id="account-link">')[2].partition("<")[0]
    assert "could not be sent" in text
    assert AccountLink.objects.get().mailed_to == ""
    assert followed(link, PHRASE) == 302
    ada = User.objects.get(username="ada")
    assert not ada.emailaddress_set.filter(verified=True).exists(), "nobody has shown that it is theirs"  # type: ignore[attr-defined]


def test_a_lead_sees_and_invites_only_below(client: Client, acme: Team, olga: User) -> None:
    nlp = make_team(acme, "NLP")
    vision = make_team(acme, "Vision")
    client.force_login(member(nlp, Role.LEAD, "lea"))
    member(nlp, Role.RESEARCHER, "rosa")
    member(vision, Role.RESEARCHER, "otto")
    text = client.get("/people/").content.decode()
    assert "rosa" in text
    assert "otto" not in text
    assert "olga" not in text
    assert client.get("/people/otto/").status_code == 404
    assert client.post("/people/", {"username": "ada", "team": "vision", "role": "viewer"}).status_code == 422
    assert client.post("/people/", {"username": "ada", "team": "nlp", "role": "admin"}).status_code == 422
    assert not User.objects.filter(username="ada").exists()
    for path in ("/people/", "/settings/service-accounts/"):
        form = client.get(path).content.decode()
        assert 'value="lead"' in form
        assert 'value="admin"' not in form, "nobody is offered what they may not give"
    assert client.post("/people/", {"username": "ada", "team": "nlp", "role": "viewer"}).status_code == 200


def test_an_organisation_s_name_stands_in_a_subject_as_it_is_written(
    page: Client, acme: Team, mailed: None
) -> None:
    Team.objects.filter(pk=acme.pk).update(name="R&D's")
    page.post("/people/", {"username": "ada", "email": "ada@acme.example"})
    assert mail.outbox[0].subject == "Your account at Chamber of R&D's"


def test_who_has_no_role_is_not_told_that_there_are_no_pools(client: Client, acme: Team) -> None:
    client.force_login(User.objects.create_user("ada"))
    text = client.get("/").content.decode()
    assert "No pools to show" in text
    assert "No pools yet" not in text


def test_a_name_of_too_many_characters_is_refused_whole(page: Client) -> None:
    answer = page.post("/people/", {"username": "ada", "name": f"{'a' * 100} {'b' * 100}"})
    assert answer.status_code == 422
    assert "at most 150" in answer.content.decode()


def test_people_are_found_by_name_address_and_state(page: Client, acme: Team) -> None:
    for name in ("ada", "bob", "cleo"):
        member(acme, Role.VIEWER, name, first_name=name.title(), password=PHRASE)
    User.objects.filter(username="cleo").update(is_active=False)
    for query, found in (
        ("q=BOB@example", {"bob"}), ("state=disabled", {"cleo"}), ("q=nobody", set()), ("q=ada&state=active", {"ada"}),
    ):  # fmt: skip
        text = page.get(f"/people/?{query}").content.decode()
        assert {name for name in ("ada", "bob", "cleo", "olga") if f"/people/{name}/" in text} == found, query
    wrong = page.get("/people/?state=gone")
    assert wrong.status_code == 422
    assert "&#x27;gone&#x27; is not allowed for state; allowed are" in wrong.content.decode()


def test_disabling_on_the_page_says_why_not_beside_the_field(page: Client, acme: Team) -> None:
    member(acme, Role.RESEARCHER, "ada")
    answer = page.post("/people/ada/disable/", {"workloads": "hand-over", "to": "nobody"})
    assert answer.status_code == 422
    assert "There is no account with the name or e-mail address &#x27;nobody&#x27;" in answer.content.decode()
    nobody = page.post("/people/ada/disable/", {"workloads": "hand-over", "to": " "})
    assert "Name who gets the workloads." in nobody.content.decode()
    assert page.post("/people/ada/disable/", {"workloads": "leave"}).status_code == 302
    assert "Disabled" in page.get("/people/ada/").content.decode()
    assert page.post("/people/ada/enable/").status_code == 302


@pytest.mark.parametrize("login", ["ada", "ADA", "ada@example.org", "Ada@Example.Org", "  ada "])
def test_one_signs_in_by_name_or_address(acme: Team, login: str) -> None:
    member(acme, Role.VIEWER, "ada", password=PHRASE)
    sign_in(login, PHRASE)
    assert told("person.signed-in") == [("ada", "ada", "127.0.0.1")]


def test_what_was_tried_in_vain_is_noted_without_what_was_typed(acme: Team) -> None:
    member(acme, Role.VIEWER, "ada", password=PHRASE)
    for login in ("ada", "my secret typed in the wrong field"):
        answer = Client().post("/sign-in/", {"login": login, "password": "wrong"})
        assert answer.status_code == 422
        assert "do not go together" in answer.content.decode()
    assert told("person.sign-in-failed") == [
        ("anonymous", "(no such account)", "127.0.0.1"),
        ("anonymous", "ada", "127.0.0.1"),
    ]
    assert "typed" not in str(list(AuditEvent.objects.values()))


def test_nobody_signs_up_by_themselves() -> None:
    for path in ("/sign-up/", "/signup/", "/accounts/signup/", "/sign-in/signup/"):
        assert Client().get(path).status_code in {302, 404}


def test_a_changed_password_ends_the_other_sessions_only(olga: User) -> None:
    here, there = sign_in("olga", PHRASE), sign_in("olga", PHRASE)
    wrong = {"oldpassword": "x", "password1": NEXT, "password2": NEXT}
    assert here.post("/settings/password/", wrong).status_code == 422
    assert here.post("/settings/password/", {**wrong, "oldpassword": PHRASE}).status_code == 302
    assert here.get("/settings/").status_code == 200
    assert there.get("/settings/").status_code == 302
    assert [row[0] for row in told("person.password-changed")] == ["olga"]


@pytest.mark.notes_sessions
def test_a_session_that_no_table_tells_of_is_taken_in_and_its_use_noted(olga: User) -> None:
    client = Client(REMOTE_ADDR="192.0.2.9")
    client.force_login(olga)
    assert client.get("/settings/").status_code == 200
    row = UserSession.objects.get()
    assert (row.user, row.ip) == (olga, "192.0.2.9")
    long_ago = timezone.now() - timedelta(minutes=2)
    UserSession.objects.update(last_seen_at=long_ago)
    caches["process"].clear()
    client.get("/tokens/", REMOTE_ADDR="192.0.2.10")
    row.refresh_from_db()
    assert row.last_seen_at > long_ago
    assert row.ip == "192.0.2.10"


def test_sessions_are_listed_with_device_and_ended_one_by_one_or_all_others(olga: User) -> None:
    here = sign_in("olga", PHRASE, agent="Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
    there, third = sign_in("olga", PHRASE, "192.0.2.9"), sign_in("olga", PHRASE)
    text = here.get("/settings/").content.decode()
    assert "Firefox on Linux" in text
    assert "192.0.2.9" in text
    one = UserSession.objects.get(ip="192.0.2.9")
    assert here.post(f"/settings/sessions/{one.pk}/end/").status_code == 302
    assert there.get("/settings/").status_code == 302
    assert third.get("/settings/").status_code == 200
    stray = Client()
    stray.force_login(User.objects.get(pk=olga.pk))
    assert here.post("/settings/sessions/end-others/").status_code == 302
    assert here.get("/settings/").status_code == 200
    assert third.get("/settings/").status_code == stray.get("/settings/").status_code == 302


def test_a_session_of_somebody_else_is_not_there(page: Client, acme: Team) -> None:
    member(acme, Role.VIEWER, "ada", password=PHRASE)
    sign_in("ada", PHRASE)
    theirs = UserSession.objects.get(user__username="ada")
    assert page.post(f"/settings/sessions/{theirs.pk}/end/").status_code == 404
    assert UserSession.objects.filter(pk=theirs.pk).exists()


def test_ones_own_new_address_counts_once_it_is_confirmed(page: Client, olga: User, mailed: None) -> None:
    assert (
        page.post(
            "/settings/", {"name": "Olga O", "email": "new@acme.example", "password": PHRASE}
        ).status_code
        == 302
    )
    assert mailing.settle()
    olga.refresh_from_db()
    assert (str(olga), olga.email) == ("Olga O", "olga@example.org")
    message: Any = mail.outbox[0]
    link = next(word for word in message.body.split() if "/sign-in/address/" in word)
    assert message.to == ["new@acme.example"]
    assert page.get(link).status_code == 200
    assert page.post(link).status_code == 302
    olga.refresh_from_db()
    assert olga.email == "new@acme.example"
    assert Client().get("/sign-in/address/made-up/").status_code == 410


def test_nobody_takes_the_address_of_another_account_or_learns_that_it_is_one(
    page: Client, acme: Team, mailed: None
) -> None:
    member(acme, Role.VIEWER, "ada")
    told = []
    for address in ("ADA@example.org", "eve@example.org"):
        text = page.post("/settings/", {"email": address, "password": PHRASE}, follow=True).content.decode()
        told.append(re.sub(TOKEN, "", text).replace(address.lower(), "ADDRESS").replace(address, "ADDRESS"))
        assert "Confirm ADDRESS by the link" in told[-1]
    assert told[0] == told[1]
    assert mailing.settle()
    assert [message.to for message in mail.outbox] == [["eve@example.org"]]
    assert User.objects.get(username="olga").email == "olga@example.org"


def test_without_a_mail_server_ones_own_address_stays(page: Client, olga: User) -> None:
    assert page.post("/settings/", {"name": "Olga", "email": "new@acme.example"}).status_code == 302
    olga.refresh_from_db()
    assert olga.email == "olga@example.org"


def test_a_forgotten_password_is_set_anew_by_mail_once_and_ends_all_sessions(
    olga: User, mailed: None
) -> None:
    before = sign_in("olga", PHRASE)
    client = Client()
    unknown = client.post("/sign-in/forgotten/", {"email": "nobody@acme.example"}, follow=True)
    known = client.post("/sign-in/forgotten/", {"email": "OLGA@example.org"}, follow=True)
    bodies = {re.sub(TOKEN, "", answer.content.decode()) for answer in (unknown, known)}
    assert len(bodies) == 1, "nobody learns who has an account"
    assert mailing.settle()
    message: Any = mail.outbox[0]
    link = next(word for word in message.body.split() if "/sign-in/forgotten/" in word)
    form = client.get(link, follow=True)
    there = form.request["PATH_INFO"]
    assert client.post(there, {"password1": "short", "password2": "short"}).status_code == 422
    assert client.post(there, {"password1": NEXT, "password2": NEXT}).status_code == 302
    assert Client().get(link, follow=True).status_code == 410
    assert before.get("/settings/").status_code == 302
    sign_in("olga", NEXT)
    assert told("person.password-reset") != []


def test_a_link_asked_for_before_somebody_was_put_out_lets_nobody_in(
    olga: User, acme: Team, mailed: None
) -> None:
    ada, client = member(acme, Role.VIEWER, "ada", password=PHRASE), Client()
    client.post("/sign-in/forgotten/", {"email": "ada@example.org"})
    assert mailing.settle()
    link = next(word for word in str(mail.outbox[0].body).split() if "/sign-in/forgotten/" in word)
    there = client.get(link, follow=True).request["PATH_INFO"]
    actions.disable(by=actor(olga), user=ada)
    assert client.post(there, {"password1": NEXT, "password2": NEXT}).status_code == 410
    ada.refresh_from_db()
    assert ada.check_password(PHRASE)


def test_very_many_mails_to_one_address_are_refused(olga: User, mailed: None) -> None:
    statuses = [
        Client(REMOTE_ADDR=f"192.0.2.{number}")
        .post("/sign-in/forgotten/", {"email": "olga@example.org"})
        .status_code
        for number in range(4)
    ]
    assert statuses == [302, 302, 302, 429]


def test_links_that_are_good_count_for_nobody(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "TRIES_PER_ADDRESS", 2)
    link = f"/welcome/{actions.invite(by=actor(olga), username='ada').secret}/"
    assert [followed(link, "short", "short") for _ in range(4)] == [422] * 4
    assert followed(link, PHRASE) == 302


def test_very_many_links_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "TRIES_PER_ADDRESS", 2)
    assert [Client().get("/welcome/made-up/").status_code for _ in range(2)] == [410, 410]
    answer = Client().get("/welcome/made-up/")
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 300
    assert f"Try again in {answer.headers['Retry-After']} second" in answer.content.decode()
    assert not AccountLink.objects.exists()


def test_a_name_that_people_give_themselves_is_not_what_the_trail_calls_them(
    page: Client, acme: Team
) -> None:
    ada = member(make_team(acme, "NLP"), Role.RESEARCHER, "ada", first_name="olga")
    assert str(ada) == "olga"
    page.post("/people/ada/end-sessions/")
    page.post("/teams/acme/members/", {"who": "ada", "role": "viewer"})
    assert [name for _, name, _ in told("person.sessions-ended")] == ["ada"]
    assert [name for _, name, _ in told("member.added")] == ["ada: Viewer of Acme"]
