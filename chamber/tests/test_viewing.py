"""View as: whom an organisation admin may see the pages as, that nothing can be changed meanwhile, and how it ends."""

import json

import pytest
from allauth.usersessions.models import UserSession
from django.test import Client

from chamber import viewing
from chamber.errors import NotAllowed
from chamber.models import Scope
from chamber.reauthentication import CONFIRMED
from chamber.sessions import VIEWING, user_of
from chamber.tokens import create_token
from teams.models import AuditEvent, Role
from teams.tests.factories import bind, make_user
from tests.test_role_walk import BODIES, ROWS, URLS, World, world

__all__ = ["world"]

NO_SESSION = {"agentlink:sync", "scim", "livez", "readyz", "metrics", *viewing.ASK_NO_SESSION}
ADDRESS, AGENT = "192.0.2.55", "Mozilla/5.0 (test)"


@pytest.fixture
def admin(world: World) -> Client:
    client = Client(REMOTE_ADDR=ADDRESS, headers={"User-Agent": AGENT})
    client.force_login(world.users["org-admin"])
    return client


def begin(client: Client, username: str) -> None:
    answer = client.post(f"/people/{username}/view-as/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")


def trail() -> list[tuple[str, str, str, str | None, str | None]]:
    rows = AuditEvent.objects.filter(action__startswith="person.view-as").order_by("at", "id")
    return list(rows.values_list("action", "actor", "target_name", "address", "agent"))


def test_the_pages_are_those_of_the_other_and_each_says_so(world: World, admin: Client) -> None:
    begin(admin, "outsider")
    page = admin.get("/")
    assert page.context["user"].username == "outsider"
    for path in ("/", "/teams/", "/workloads/", "/no-such-page/", "/people/", "/teams/nlp/"):
        text = admin.get(path, headers={"Accept": "text/html"}).content.decode()
        assert "You see Chamber as <strong>outsider</strong>" in text, path
        assert "data-live-socket" not in text, path
    assert "/scheduling/preview/" not in admin.get("/workloads/submit/").content.decode(), (
        "it may not be asked"
    )
    assert admin.get("/teams/nlp/").status_code == 404
    assert admin.get("/people/").status_code == 403
    admin.post("/view-as/end/")
    assert admin.get("/teams/nlp/").status_code == 200
    assert "You see Chamber as" not in admin.get("/").content.decode()


def test_both_ends_are_rows_of_the_trail_with_address_and_agent(world: World, admin: Client) -> None:
    begin(admin, "viewer")
    admin.post("/view-as/end/")
    admin.post("/view-as/end/")
    assert trail() == [
        (f"person.view-as-{act}", "org-admin", "viewer", ADDRESS, AGENT) for act in ("begun", "ended")
    ]


def test_nothing_can_be_changed_at_any_address_as_a_service_account(world: World, admin: Client) -> None:
    """As people, the role walk asks (`tests/ways_in.py`)."""
    begin(admin, username := "service:ci")
    before = AuditEvent.objects.count()
    walked = 0
    for method, name in ROWS:
        if name in NO_SESSION or name in viewing.ENDS or (method == "GET" and not name.startswith("api-")):
            continue
        api = name.startswith("api-")
        body = BODIES.get(name, {})
        content = {"data": json.dumps(body), "content_type": "application/json"} if api else {"data": body}
        answer = getattr(admin, method.lower())(world.address(name), **({} if method == "GET" else content))
        assert answer.status_code == 403, (method, name, answer.status_code)
        assert f"You see the pages as {username}: " in answer.content.decode(), (method, name)
        walked += 1
    assert walked > 150
    assert AuditEvent.objects.count() == before


def test_it_is_never_as_one_who_may_do_more(world: World, admin: Client) -> None:
    owner, equal = world.users["owner"], make_user("root", is_superuser=True)
    for username, status in (("root", 403), ("org-admin", 409), ("nobody-known", 404)):
        answer = admin.post(f"/people/{username}/view-as/", headers={"Accept": "text/html"})
        assert answer.status_code == status, username
    owner.is_active = False
    owner.save()
    assert admin.post("/people/owner/view-as/").status_code == 409
    assert equal.is_superuser
    assert trail() == []
    assert VIEWING not in admin.session


def test_more_rights_are_judged_by_permissions_and_place(world: World) -> None:
    two = make_user("two")
    bind(two, world.nlp.parent or world.nlp, Role.ADMIN)
    viewing.require_admin(world.users["org-admin"])
    for username in ("operator", "auditor", "lead"):
        viewing.require(world.users["org-admin"], world.users[username])
    with pytest.raises(NotAllowed, match="Only organisation admins"):
        viewing.require(two, world.users["viewer"])


def test_it_ends_when_its_time_is_over_and_when_its_admin_is_none_any_more(
    world: World, admin: Client
) -> None:
    begin(admin, "viewer")
    session = admin.session
    session[VIEWING] = {**session[VIEWING], "until": 1.0}
    session.save()
    assert "You see Chamber as" not in admin.get("/").content.decode()
    begin(admin, "viewer")
    world.users["org-admin"].bindings.all().delete()
    bind(world.users["org-admin"], world.nlp, Role.ADMIN)
    assert "You see Chamber as" not in admin.get("/").content.decode()
    rows = AuditEvent.objects.filter(action="person.view-as-ended").order_by("at", "id")
    assert [row.after["why"] for row in rows] == ["time over", "not allowed any more"]


def test_streams_and_kept_fragments_know_no_such_session(world: World, admin: Client) -> None:
    key = str(admin.session.session_key)
    assert user_of(key) == world.users["org-admin"]
    begin(admin, "outsider")
    assert user_of(key) is None
    fragment = {"X-Chamber-Fragment": "1"}
    shown = [admin.get("/teams/", headers=fragment).content for _ in range(2)]
    assert all(b"nlp" not in each for each in shown)
    admin.post("/view-as/end/")
    assert b"nlp" in admin.get("/teams/", headers=fragment).content
    assert user_of(key) == world.users["org-admin"]


def test_a_token_has_none_of_it(world: World, admin: Client) -> None:
    begin(admin, "outsider")
    _, secret = create_token(user=world.users["org-admin"], name="x", scope=Scope.READ, days=1)
    answer = admin.get("/api/v1/teams/nlp/", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200


def test_it_asks_again_who_it_is_that_begins(world: World, admin: Client) -> None:
    session = admin.session
    session[CONFIRMED] = 0
    session.save()
    answer = admin.post("/people/viewer/view-as/")
    assert answer.headers["Location"].startswith("/sign-in/again/?held=")


def test_the_last_use_of_the_session_is_noted_as_its_own(world: World, admin: Client) -> None:
    begin(admin, "viewer")
    admin.get("/")
    assert not UserSession.objects.filter(user__username="viewer").exists()
    assert set(URLS) >= viewing.ENDS
