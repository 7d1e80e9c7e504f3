"""Inviting many people from a CSV: the page and the API."""

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.models import Scope, User
from chamber.people import actions, many
from chamber.people.many import MOST_AT_ONCE
from chamber.tokens import create_token
from teams.models import Binding, Role, Team
from teams.tests.factories import make_org, make_team, make_user, member

pytestmark = pytest.mark.django_db
URL, ADD = "/people-from-csv/", "/people-from-csv/invite/"
HEADING = "username,name,email,team,role\n"
LIST = (
    HEADING + "ada,Ada L,ada@acme.example,nlp,researcher\n"
    "Bad Name,,,nlp,viewer\n"
    "bob,,,vision,viewer\n"
    "eve,,,nlp,admin\n"
    "taken,,,nlp,viewer\n"
    "dan,,used@acme.example,nlp,viewer\n"
    "fay,=1+1,,nlp,viewer\n"
    "gil,,,nlp,\n"
    "hal,,,nlp,chief\n"
    "ian,,,nlp,viewer\n"
)


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    make_team(acme, "Vision")
    make_user("taken", email="used@acme.example")
    return make_team(acme, "NLP")


@pytest.fixture
def lena(nlp: Team) -> User:
    return member(nlp, Role.LEAD, "lena")


@pytest.fixture
def page(lena: User) -> Client:
    client = Client()
    client.force_login(lena)
    return client


def text(answer: Any) -> str:
    return str(answer.content.decode().replace("&#x27;", "'"))


FAULTS = (
    "'Bad Name' is no user name",
    "There is no team 'vision' that you may see.",
    "In NLP you may give and take the roles viewer, researcher, lead; not admin.",
    "There is an account with the user name taken already.",
    "There is an account with the e-mail address used@acme.example already.",
    "begins with '=', as a formula",
    "Give a team and a role on it, or neither.",
    "'chief' is not allowed for role",
)


def test_a_list_is_judged_line_by_line_and_nobody_is_invited(page: Client) -> None:
    before = User.objects.count()
    answer = page.post(URL, {"text": LIST})
    assert answer.status_code == 200
    for fault in FAULTS:
        assert fault in text(answer)
    assert "2 people to invite, 8 lines with a fault" in text(answer)
    assert "Invite 2 people" in text(answer)
    assert User.objects.count() == before


def test_one_press_invites_those_without_a_fault_and_shows_each_link_once(page: Client, nlp: Team) -> None:
    kept = re.search(
        r'<textarea name="text" hidden[^>]*>\n(.*?)</textarea>', text(page.post(URL, {"text": LIST})), re.S
    )
    assert kept is not None
    answer = page.post(ADD, {"text": kept[1]})
    assert answer.headers["Cache-Control"] == "no-store"
    assert "2 people are invited; 8 lines were refused" in text(answer)
    links = re.findall(r'id="link-(\w+)">([^<]+)<', text(answer))
    assert [name for name, _ in links] == ["ada", "ian"]
    assert all(Client().get(link).status_code == 302 for _, link in links)
    assert Binding.objects.filter(team=nlp, user__username__in=["ada", "ian"]).count() == 2
    again = page.post(ADD, {"text": kept[1]})
    assert "There is an account with the user name ada already." in text(again)
    assert "/welcome/" not in text(again)


def test_a_file_is_taken_as_well(page: Client) -> None:
    file = SimpleUploadedFile("people.csv", ("\ufeff" + LIST.replace(",", ";")).encode())
    answer = text(page.post(URL, {"file": file}))
    assert "2 people to invite" in answer
    assert answer.count("ada@acme.example") == 2, "in the table and in what is sent on"


def test_a_mended_file_is_taken_from_the_preview_of_the_one_before(page: Client) -> None:
    first = page.post(URL, {"file": SimpleUploadedFile("people.csv", LIST.encode())})
    sent = {"text": first.context["form"]["text"].value() or ""}
    second = page.post(URL, {"file": SimpleUploadedFile("people.csv", b"username\nada\n"), **sent})
    assert second.status_code == 200
    pasted = page.post(URL, {"text": LIST})
    assert pasted.context["form"]["text"].value() == LIST


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({}, "Give a file or its text."),
        ({"text": "username,age\nada,7\n"}, "There is a column 'age' in the heading"),
        ({"file": SimpleUploadedFile("x.csv", b"username\nad\xe9\n")}, "The file is not in UTF-8 (byte 12)"),
        (
            {"file": SimpleUploadedFile("x.csv", b"x" * 900_000)},
            "The file has 900,000 bytes; at most 800,000",
        ),
        ({"text": "x" * 200_001}, "The list has 200,001 characters; at most 200,000"),
        (
            {"text": "username\n" + "\n".join(f"u{number}" for number in range(MOST_AT_ONCE + 1))},
            "more than 200 lines, the most that are taken at once",
        ),
    ],
)
def test_what_is_no_such_list_is_told_beside_it(page: Client, sent: dict[str, Any], says: str) -> None:
    answer = page.post(URL, sent)
    assert answer.status_code == 422
    assert says in text(answer)


def test_many_lines_are_judged_with_few_queries(page: Client) -> None:
    made = []
    for count in (2, 50):
        rows = "".join(f"u{number},,,nlp,viewer\n" for number in range(count))
        with CaptureQueriesContext(connection) as queries:
            assert f"{count} people to invite" in text(page.post(URL, {"text": HEADING + rows}))
        made.append(len(queries))
    assert made[0] == made[1]


def test_links_are_mailed_and_a_server_that_takes_none_is_not_asked_for_each(
    page: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAIL = True
    answer = page.post(ADD, {"text": LIST})
    assert "Mailed to ada@acme.example" in text(answer)
    assert [message.to for message in mail.outbox] == [["ada@acme.example"]]
    asked: list[object] = []
    monkeypatch.setattr(mailing, "send", asked.append)
    rows = "".join(f"u{number},,u{number}@acme.example,nlp,viewer\n" for number in range(5))
    answer = page.post(ADD, {"text": HEADING + rows})
    assert "Could not be mailed to u4@acme.example: an organisation admin can hand one over." in text(answer)
    assert len(asked) == 2


def test_the_links_of_other_lines_are_shown_where_the_database_does_not_take_one(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chamber.transactions.FIRST_PAUSE_SECONDS", 0)
    invite, tries = actions.invite, Counter[str]()

    def busy(*, username: str, **more: Any) -> actions.Made:
        tries[username] += 1
        if username == "u1" or (username == "u2" and tries["u2"] == 1):
            raise OperationalError("database is locked")
        return invite(username=username, **more)

    monkeypatch.setattr(actions, "invite", busy)
    # Pytest's own transaction is around: inside one nothing is tried again.
    monkeypatch.setattr("chamber.transactions.connection", SimpleNamespace(in_atomic_block=False))
    answer = text(page.post(ADD, {"text": HEADING + "".join(f"u{n},,,nlp,viewer\n" for n in range(3))}))
    assert re.findall(r'id="link-(\w+)"', answer) == ["u0", "u2"]
    assert "2 people are invited; 1 line was refused" in answer
    assert "The database could not be had at this moment." in answer
    assert tries == {"u0": 1, "u1": 4, "u2": 2}


def test_what_takes_too_long_is_answered_before_the_proxy_gives_up(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 39.0, 41.0, 42.0])
    monkeypatch.setattr(many, "monotonic", lambda: next(clock))
    answer = text(page.post(ADD, {"text": HEADING + "".join(f"u{n},,,nlp,viewer\n" for n in range(4))}))
    assert re.findall(r'id="link-(\w+)"', answer) == ["u0", "u1"]
    assert "2 people are invited; 2 lines were refused" in answer
    assert "The lines before took 40 seconds, the most at once: send this line again." in answer
    assert not User.objects.filter(username__in=["u2", "u3"]).exists()


def test_who_gives_no_role_invites_nobody(acme: Team, nlp: Team) -> None:
    client = Client()
    client.force_login(member(acme, Role.AUDITOR, "aud"))
    assert [client.get(URL).status_code, client.post(ADD, {"text": LIST}).status_code] == [403, 403]


def test_the_api_previews_and_invites(lena: User) -> None:
    secret = create_token(user=lena, name="x", scope=Scope.MANAGE, days=1)[1]
    client = Client(headers={"Authorization": f"Bearer {secret}"})

    def posted(**body: Any) -> Any:
        return client.post("/api/v1/people-from-csv/", body, content_type="application/json")

    shown = posted(csv=LIST, preview=True)
    assert (shown.status_code, shown.json()["invited"]) == (200, 2)
    assert not User.objects.filter(username="ada").exists()
    done = posted(csv=LIST)
    assert (done.status_code, done.json()["invited"]) == (201, 2)
    first, second = done.json()["lines"][:2]
    assert (first["line"], first["fault"], "/welcome/" in first["url"]) == (2, "", True)
    assert (second["line"], second["url"]) == (3, None)
    assert "is no user name" in second["fault"]
    refused = posted(csv="name\nAda\n")
    assert (refused.status_code, "no column 'username'" in refused.json()["detail"]) == (422, True)
