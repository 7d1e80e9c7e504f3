"""The page of the audit trail, and its export: who reads what of it, filtered, page by page, and as CSV."""

import csv
import io
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.rest import encode_cursor
from chamber.standing import StreamStanding
from teams import trail
from teams.actors import Actor, Via
from teams.audit import record
from teams.chain import duty
from teams.chain.accepting import accept, first_fault
from teams.chain.files import verify
from teams.models import AuditEvent, Role
from teams.tests.chains import acts, unguarded
from teams.tests.conftest import Acme, Api, SignIn
from teams.tests.factories import actor, bind, make_org, make_team, member
from teams.views.audit import sent

PAGE, EXPORT, API_EXPORT = "/settings/audit/", "/settings/audit/export/", "/api/v1/audit/export/"


@pytest.fixture
def acted(acme: Acme) -> Acme:
    """The root was renamed, NLP moved over the API, Production edited by an admin of it all."""
    record(
        by=actor(acme.org_admin),
        action="team.renamed",
        target=acme.root,
        before={"name": "A"},
        after={"name": "Acme"},
    )
    record(by=actor(acme.admin, Via.API), action="team.moved", target=acme.nlp)
    record(by=actor(acme.org_admin), action="teampolicy.set", target=acme.production, team=acme.production)
    return acme


def many(acme: Acme, count: int, **fields: Any) -> None:
    """Write so many rows, one a second, the latest now."""
    now = timezone.now()
    given = {"actor": "olga", "via": "page", "action": "team.edited", "target_kind": "team", "target_id": "x"}
    AuditEvent.objects.bulk_create(
        AuditEvent(at=now - timedelta(seconds=number), target_name=f"row {number}", **given | fields)
        for number in range(count)
    )


def actions_on(page: str) -> list[str]:
    """Return the acts that a page lists."""
    return [part.split('"')[0] for part in page.split('class="mono" href="?action=')[1:]]


def test_newest_first_with_what_it_was_and_is(acted: Acme, sign_in: SignIn) -> None:
    page = sign_in(acted.org_admin).get(PAGE).content.decode()
    assert actions_on(page) == ["teampolicy.set", "team.moved", "team.renamed"]
    assert "Acme: renamed, name A → Acme" in page


@pytest.mark.parametrize(
    ("query", "acts"),
    [
        ("team=nlp", ["team.moved"]),
        ("actor=adam", ["team.moved"]),
        ("action=team", ["team.moved", "team.renamed"]),
        ("action=team.moved", ["team.moved"]),
        ("action=team.archived", []),
        ("actor=rita", []),
        ("via=api", ["team.moved"]),
        ("since=2999-01-01", []),
        ("until=2000-01-01", []),
        ("since=2000-01-01&until=2999-01-01T00:00:00Z&actor=adam", ["team.moved"]),
        ("actor=%00", ["teampolicy.set", "team.moved", "team.renamed"]),
    ],
)
def test_filters_of_the_address(acted: Acme, sign_in: SignIn, query: str, acts: list[str]) -> None:
    browser = sign_in(acted.org_admin)
    assert actions_on(browser.get(f"{PAGE}?{query}").content.decode()) == acts
    rows = csv.DictReader(io.StringIO(browser.get(f"{EXPORT}?{query}").getvalue().decode()))
    assert [row["action"] for row in rows] == acts


def test_a_day_is_meant_to_its_end(acted: Acme, sign_in: SignIn) -> None:
    AuditEvent.objects.bulk_create(
        AuditEvent(at=datetime(2030, 1, day, 23, 59, tzinfo=UTC), action=f"team.day-{day}")
        for day in (1, 2, 3)
    )
    page = sign_in(acted.org_admin).get(f"{PAGE}?since=2030-01-02&until=2030-01-02").content.decode()
    assert actions_on(page) == ["team.day-2"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("since=yesterday", "since is &#x27;yesterday&#x27;; give a day"),
        ("until=9999-12-31", "until is &#x27;9999-12-31&#x27;"),
        ("since=0001-01-01T00:00%2B14:00", "since is &#x27;0001-01-01T00:00+14:00&#x27;"),
        ("until=9999-12-31T23:59-14:00", "until is &#x27;9999-12-31T23:59-14:00&#x27;"),
        ("via=door", "via is &#x27;door&#x27;; allowed are page, api, cli, agent, system."),
        ("team=nobody", "There is no team &#x27;nobody&#x27; that you may see."),
        (
            "actor=adamm",
            "There is no user &#x27;adamm&#x27; that you may see. Did you mean &#x27;adam&#x27;?",
        ),
        (
            "action=tea",
            "action is &#x27;tea&#x27;; allowed are array, audit, cluster, credential, data-source, environment, "
            "group, job-class, member, namespace, organisation, person",
        ),
        ("action=pool.moved", "allowed are pool.created, pool.deleted, pool.edited."),
    ],
)
def test_what_cannot_be_asked_is_a_sentence_on_the_page(
    acted: Acme, sign_in: SignIn, query: str, told: str
) -> None:
    browser = sign_in(acted.org_admin)
    answer = browser.get(f"{PAGE}?{query}")
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert browser.get(f"{EXPORT}?{query}").status_code == (404 if "that you may see" in told else 422)


def test_without_anything_it_says_what_will_come(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)
    assert "Nothing was changed yet" in browser.get(PAGE).content.decode()
    assert "Nothing matches" in browser.get(f"{PAGE}?actor=nobody").content.decode()


def test_each_role_reads_as_far_as_it_reaches(acted: Acme, sign_in: SignIn) -> None:
    bind(acted.stranger, acted.root, Role.AUDITOR)
    assert len(actions_on(sign_in(acted.stranger).get(PAGE).content.decode())) == 3
    page = sign_in(acted.admin).get(PAGE).content.decode()
    assert actions_on(page) == ["team.moved"]
    assert ">Production<" not in page
    assert sign_in(acted.admin).get(f"{PAGE}?team=production").status_code == 422
    assert 'href="/settings/audit/"' in sign_in(acted.admin).get("/tokens/").content.decode()
    for user in (acted.lead, acted.researcher, acted.viewer):
        browser = sign_in(user)
        assert browser.get(PAGE).status_code == browser.get(EXPORT).status_code == 403
        assert 'href="/settings/audit/"' not in browser.get("/tokens/").content.decode()


def test_pages_follow_each_other_without_gap_or_repetition(acme: Acme, sign_in: SignIn) -> None:
    many(acme, 120)
    browser, seen, address = sign_in(acme.org_admin), [], f"{PAGE}?action=team"
    while address:
        answer = browser.get(address)
        seen += [event.target_name for event in answer.context["events"]]
        cursor = answer.context["next_cursor"]
        address = f"{PAGE}?action=team&cursor={cursor}" if cursor else ""
    assert seen == [f"row {number}" for number in range(120)]
    nowhere = encode_cursor("0001-01-01T00:00:00+14:00", UUID(int=0).hex)
    for cursor in ("nonsense", nowhere):
        assert browser.get(f"{PAGE}?cursor={cursor}").status_code == 200


def test_rows_of_one_moment_are_told_apart(acme: Acme) -> None:
    at = timezone.now()
    AuditEvent.objects.bulk_create(AuditEvent(at=at, action="team.edited") for _ in range(60))
    first, cursor = trail.page_of(AuditEvent.objects.all(), "")
    second, last = trail.page_of(AuditEvent.objects.all(), cursor)
    assert len({event.pk for event in (*first, *second)}) == 60
    assert last == ""


def test_many_rows_cost_no_more_queries_and_no_sorting(acme: Acme, sign_in: SignIn) -> None:
    browser = sign_in(acme.org_admin)

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            assert browser.get(PAGE).status_code == 200
        return len(made)

    many(acme, 10)
    few = queries()
    many(acme, 300, actor="adam")
    assert queries() == few <= 10
    for rows in (AuditEvent.objects.all(), AuditEvent.objects.filter(actor="adam")):
        plan = rows.order_by("-at", "-id")[:51].explain()
        if connection.vendor == "sqlite":
            assert "TEMP B-TREE" not in plan
            assert "USING INDEX audit_" in plan


# As CSV


def test_the_export_has_all_rows_and_no_formulas(
    acme: Acme, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "EXPORTED_AT_ONCE", 7)
    many(acme, 20, actor="@SUM(A1)", after={"name": "=1+1"})
    answer = sign_in(acme.org_admin).get(EXPORT)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'attachment; filename="audit-' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    assert [row["target"] for row in rows] == [f"row {number}" for number in range(20)]
    assert {(row["actor"], row["after"]) for row in rows} == {("'@SUM(A1)", '{"name": "=1+1"}')}


@pytest.mark.parametrize("place", ["p=foo", "p=%00", "r=1&p=x"])
def test_a_cursor_of_no_row_is_not_found_by_the_api(acted: Acme, api: Api, place: str) -> None:
    cursor = b64encode(place.encode()).decode()
    assert api(acted.org_admin).get("/api/v1/audit/", {"cursor": cursor}).status_code == 404


def test_the_api_exports_the_same(acted: Acme, api: Api) -> None:
    answer = api(acted.org_admin).get(f"{API_EXPORT}?actor=adam")
    (row,) = csv.DictReader(io.StringIO(answer.getvalue().decode()))
    assert (row["action"], row["target"], row["via"]) == ("team.moved", "NLP", "api")
    assert api(acted.viewer).get(API_EXPORT).status_code == 403
    refused = api(acted.org_admin).get(f"{API_EXPORT}?since=soon")
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")
    assert api(acted.org_admin).get("/api/v1/audit/?since=2999-01-01").json()["results"] == []


@pytest.mark.django_db(transaction=True)
async def test_a_server_of_sockets_sends_it_piece_by_piece_too() -> None:
    request = ASGIRequest({"type": "http", "method": "GET", "path": PAGE, "headers": []}, io.BytesIO())
    reader = await sync_to_async(lambda: member(make_org("Acme"), Role.ORG_ADMIN, "olga"))()
    answer = sent(request, AuditEvent.objects.all(), StreamStanding(reader.pk))
    assert answer.is_async  # type: ignore[attr-defined]
    pieces = [piece async for piece in answer]  # type: ignore[attr-defined]
    assert b"".join(pieces).startswith(b"at,actor,on_behalf_of,via,action")


@pytest.mark.django_db
@pytest.mark.parametrize("loss", ["account", "one of two teams"])
def test_an_export_under_way_ends_with_what_let_its_reader_read(
    monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(trail, "EXPORTED_AT_ONCE", 1)
    acme = make_org("Acme")
    nlp, vision = make_team(acme, "NLP"), make_team(acme, "Vision")
    reader = member(nlp, Role.ADMIN, "ada")
    other = bind(reader, vision, Role.ADMIN)
    for team in (nlp, vision, nlp, vision):
        record(by=Actor.system("test"), action="team.changed", target=team, team=team)
    answer = sent(
        RequestFactory().get(PAGE), AuditEvent.objects.visible_to(reader), StreamStanding(reader.pk)
    )
    pieces = iter(answer)
    assert [next(pieces).count(b"team.changed") for _ in range(3)] == [0, 1, 1]
    if loss == "account":
        type(reader).objects.filter(pk=reader.pk).update(is_active=False)
    else:
        other.delete()
    assert list(pieces) == []


def test_the_page_tells_up_to_which_row_the_chain_holds(acme: Acme, sign_in: SignIn) -> None:
    client = sign_in(acme.org_admin)
    assert "The chain was not checked yet" in client.get(PAGE).content.decode()
    rows = acts(acme.nlp, 3)
    duty.look(timezone.now())
    acts(acme.nlp, 1, sealed=False)
    page = client.get(PAGE).content.decode()
    assert "New rows fit the chain up to row 3, checked" in page
    assert "1 row not sealed yet." in page
    with unguarded():
        AuditEvent.objects.filter(pk=rows[1].pk).update(actor="nobody")
    duty.look(timezone.now() + duty.WHOLE_EVERY)
    page = client.get(PAGE).content.decode()
    assert f"Row 2 ({rows[1].pk}) was changed" in page
    assert "The chain holds up to row" in page
    fault = first_fault()
    assert fault is not None
    accept(by=Actor(name="console", via=Via.SYSTEM, on_behalf_of="olga"), name=fault.name, reason="by hand")
    page = client.get(PAGE).content.decode()
    assert "New rows fit the chain up to row 5, but for 1 known break, checked" in page
    assert "because: by hand" in page
    assert "The trail was changed past Chamber" not in page


def test_the_page_filters_by_what_it_was_about_and_by_address(acted: Acme, sign_in: SignIn) -> None:
    client = sign_in(acted.org_admin)
    assert actions_on(client.get(f"{PAGE}?target=NLP").content.decode()) == ["team.moved"]
    assert actions_on(client.get(f"{PAGE}?target={acted.root.pk}").content.decode()) == ["team.renamed"]
    many(acted, 1, address="2001:db8::7")
    assert actions_on(client.get(f"{PAGE}?address=2001:DB8:0::7").content.decode()) == ["team.edited"]
    wrong = client.get(f"{PAGE}?address=here")
    assert (wrong.status_code, "address is &#x27;here&#x27;" in wrong.content.decode()) == (422, True)
    assert client.get(f"{PAGE}?target=nothing").status_code == 422


def test_the_page_exports_with_seals(acme: Acme, sign_in: SignIn) -> None:
    acts(acme.nlp, 2)
    answer = sign_in(acme.org_admin).get(f"{EXPORT}?form=jsonl&action=team.edited")
    found = verify(answer.getvalue().decode().splitlines())
    assert (found.rows, found.is_selection, found.fault) == (2, True, "")


def test_the_api_tells_how_far_the_chain_goes(acme: Acme, api: Api) -> None:
    assert api(acme.org_admin).get("/api/v1/audit/chain/").json() == {
        **dict.fromkeys(("number", "deleted_up_to", "unsealed", "checked_up_to"), 0),
        **dict.fromkeys(("digest", "fault"), ""),
        "holds": False,
        "known_breaks": [],
        "checked_at": None,
        "whole_checked_at": None,
    }
    acts(acme.nlp, 2)
    duty.look(timezone.now())
    told = api(acme.admin).get("/api/v1/audit/chain/").json()
    assert (told["number"], told["checked_up_to"], told["holds"], told["fault"]) == (2, 2, True, "")
    assert api(acme.lead).get("/api/v1/audit/chain/").status_code == 403
