"""Mailed links: who gets one, who is shown one that could not be mailed, what the trail says of it, and how many go."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.errors import Refusal
from chamber.models import AccountLink, User
from chamber.people import actions
from teams import actions as on_teams
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, make_org, make_team, member

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"
NEXT = "harbour lantern quilt 8"
JSON = "application/json"


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture(autouse=True)
def _mailed(settings: Settings) -> Iterator[None]:
    settings.MAIL = True
    yield
    assert mailing.settle()  # or the next test finds this one's mails


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)


@pytest.fixture
def lea(nlp: Team) -> User:
    return member(nlp, Role.LEAD, "lea", password=PHRASE)


@pytest.fixture
def vic(nlp: Team) -> User:
    return member(nlp, Role.VIEWER, "vic", password=PHRASE)


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(message: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    return lambda: monkeypatch.setattr("django.core.mail.EmailMultiAlternatives.send", refuse)


def on(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def forgot(email: str, **client: Any) -> int:
    return Client(**client).post("/sign-in/forgotten/", {"email": email}).status_code


def rows(*acts: str) -> list[tuple[str, str, str, dict[str, Any]]]:
    found = AuditEvent.objects.filter(action__in=[f"person.{act}" for act in acts]).order_by("at", "pk")
    return list(found.values_list("action", "actor", "target_name", "after"))


def test_who_never_had_a_password_gets_none_by_an_address_that_a_lead_typed(
    acme: Team, nlp: Team, olga: User, lea: User
) -> None:
    address = "second@of-lea.example"
    made = actions.invite(
        by=actor(lea), username="ceo", email=address, team=nlp, role=Role.VIEWER, mailed=True
    )
    on_teams.add_member(by=actor(olga), team=acme, who="ceo", role=Role.ORG_ADMIN)
    with pytest.raises(Refusal):
        actions.use_link(secret=made.secret, password=PHRASE)
    assert forgot(address) == 302, "as for any address"
    assert mailing.settle()
    assert mail.outbox == []


@pytest.mark.parametrize("address", ["ivy@acme.example", f"a@{'ü' * 60}.de"])
def test_a_link_that_could_not_be_mailed_is_shown_to_an_organisation_admin_only(
    nlp: Team, olga: User, lea: User, no_server: Callable[[], None], address: str
) -> None:
    if address.isascii():  # to the other one no mail can be written
        no_server()
    ivy = {"username": "ivy", "email": address, "team": "nlp", "role": "viewer"}
    page = on(lea)
    told = [page.post("/people/", ivy), page.post("/people/ivy/link/", follow=True)]
    told += [page.post("/api/v1/people/", {**ivy, "username": "joe", "email": f"b{address}"}, JSON)]
    told += [page.post("/api/v1/people/ivy/link/", {}, JSON)]
    assert [answer.status_code for answer in told] == [200, 200, 201, 201]
    assert not any("/welcome/" in answer.content.decode() for answer in told)
    assert all(f"could not be mailed to {address}" in answer.content.decode() for answer in told[:2])
    assert not any("A link is mailed to" in answer.content.decode() for answer in told)
    assert [(answer.json()["url"], answer.json()["mailed_to"]) for answer in told[2:]] == [(None, "")] * 2
    assert [answer.json()["not_mailed_to"] for answer in told[2:]] == [f"b{address}", address]
    assert "/welcome/" in on(olga).post("/people/ivy/link/").content.decode()


def test_the_trail_says_what_became_of_each_link(
    nlp: Team, olga: User, lea: User, vic: User, no_server: Callable[[], None]
) -> None:
    ivy = {"username": "ivy", "email": "ivy@acme.example", "team": "nlp", "role": "viewer"}
    lead, admin = on(lea), on(olga)
    lead.post("/people/", ivy)
    no_server()
    lead.post("/people/ivy/link/")
    admin.post("/people/vic/link/")
    admin.post("/people/vic/link/", {"show": "1"})
    to_be, shown = {"link": "to be mailed"}, {"link": "shown"}
    assert rows("invited", "reset-begun", "link-mailed", "link-not-mailed") == [
        ("person.invited", "lea", "ivy", {"username": "ivy", "email": "ivy@acme.example", **to_be}),
        ("person.link-mailed", "lea", "ivy", {"link": "mailed to ivy@acme.example"}),
        ("person.invited", "lea", "ivy", to_be),
        ("person.link-not-mailed", "lea", "ivy", {"link": "not mailed to ivy@acme.example, shown to nobody"}),
        ("person.reset-begun", "olga", "vic", to_be),
        ("person.link-not-mailed", "olga", "vic", {"link": "not mailed to vic@example.org, shown instead"}),
        ("person.reset-begun", "olga", "vic", shown),
    ]


def test_the_trail_has_each_mail_for_a_new_password_and_each_new_address_that_was_asked_for(
    vic: User,
) -> None:
    assert [forgot(address) for address in ("vic@example.org", "nobody@example.org")] == [302, 302]
    assert on(vic).post("/settings/", {"email": "new@x.example", "password": PHRASE}).status_code == 302
    assert rows("reset-asked", "address-asked") == [
        ("person.reset-asked", "anonymous", "vic", {}),
        ("person.reset-asked", "anonymous", "(no such account)", {}),
        ("person.address-asked", "vic", "vic", {"email": "new@x.example"}),
    ]


def test_mails_for_a_new_password_count_among_those_that_an_address_gets_in_an_hour(
    olga: User, vic: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = 1_800_000_000 // 3600 * 3600
    statuses = []
    for minutes in range(0, 30, 5):  # each in a window of its own
        monkeypatch.setattr("chamber.counts.time.time", lambda now=start + minutes * 60.0: now)
        statuses.append(forgot("vic@example.org"))
    assert statuses == [302] * 5 + [429]
    assert on(olga).post("/people/vic/link/").status_code == 429
    assert mailing.settle()
    assert len(mail.outbox) == 5


def test_what_somebody_may_not_do_counts_for_no_address(
    acme: Team, nlp: Team, olga: User, lea: User, vic: User
) -> None:
    auditor = on(member(acme, Role.AUDITOR, "aud"))
    lead = on(lea)
    to_vic = {"username": "new", "email": "vic@example.org", "team": "nlp", "role": "admin"}
    for _ in range(3):
        assert auditor.post("/people/vic/link/").status_code == 403
        assert auditor.post("/api/v1/people/vic/link/", {}, JSON).status_code == 403
        assert lead.post("/people/", to_vic).status_code == 422
        assert lead.post("/api/v1/people/", to_vic, JSON).status_code == 403
    assert on(olga).post("/people/vic/link/").status_code == 302
    assert mail.outbox[0].to == ["vic@example.org"]


def test_a_link_that_was_opened_is_not_for_who_signs_in_next_in_that_browser(olga: User, vic: User) -> None:
    secret = actions.new_link(by=actor(olga), user=olga).secret
    browser = Client()
    assert browser.get(f"/welcome/{secret}/", follow=True).status_code == 200
    assert browser.post("/sign-in/", {"login": "vic", "password": PHRASE}).status_code == 302
    assert browser.get("/welcome/password/").status_code == 410
    browser.get(f"/welcome/{secret}/")
    AccountLink.objects.all().delete()
    assert browser.get("/welcome/password/").status_code == 410
    assert secret not in str(dict(browser.session))


def test_passwords_that_are_sent_with_a_good_link_are_bounded(olga: User) -> None:
    secret = actions.invite(by=actor(olga), username="ivy").secret
    browser = Client()
    browser.get(f"/welcome/{secret}/")
    weak = {"password1": "short", "password2": "short"}
    statuses = [browser.post("/welcome/password/", weak).status_code for _ in range(12)]
    assert statuses == [422] * 10 + [429] * 2


def test_who_manages_nobody_learns_nothing_by_naming_an_heir(
    nlp: Team, lea: User, vic: User, olga: User
) -> None:
    lead = on(lea)
    for heir in ("olga@example.org", "nobody@example.org"):
        values = {"workloads": "hand-over", "to": heir}
        assert lead.post("/api/v1/people/vic/disable/", values, JSON).status_code == 403
        assert lead.post("/people/vic/disable/", values).status_code == 403


@pytest.mark.parametrize(
    "address", ["ivy@example.org\nBcc: eve@example.org", "ivy@example.org\r\n\r\nRead this"]
)
def test_nothing_is_put_into_a_mail_by_an_address_or_a_name(olga: User, address: str) -> None:
    told = {"username": "ivy", "team": "acme", "role": "viewer"}
    assert on(olga).post("/people/", {**told, "email": address}).status_code == 422
    assert not User.objects.filter(username="ivy").exists()
    on(olga).post("/people/", {**told, "name": "Ivy\nBcc: eve@example.org", "email": "ivy@example.org"})
    assert [each.recipients() for each in mail.outbox] in ([], [["ivy@example.org"]])
    with pytest.raises(ValueError, match="newline"):
        mail.EmailMessage("Hello\nBcc: eve@example.org", "x", to=["ivy@example.org"]).message()
