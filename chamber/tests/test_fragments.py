"""Kept fragments: whom they are shown to, until when, and what they cost."""

import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
from django.core.cache import cache, caches
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chamber import fragments, live, remembered
from chamber.http import Watched
from chamber.live import _send
from chamber.live.shared import Shared
from chamber.models import User
from teams.models import Binding, Pool, Role, Team
from teams.tests.factories import bind, make_org, make_pool, make_team, member
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_caches() -> None:
    for each in ("default", "viewers", "parts"):
        caches[each].clear()


class Page:
    """One open page of somebody: fetches a fragment as the scripts do."""

    def __init__(self, user: User) -> None:
        self.client = Client()
        self.client.force_login(user)

    def fetch(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers={"X-Chamber-Fragment": "1", **headers})

    def queries(self, path: str, **headers: str) -> int:
        """Return how many queries a fetch makes."""
        with CaptureQueriesContext(connection) as queries:
            assert self.fetch(path, **headers).status_code in {200, 304}
        return len(queries)

    def settle(self, path: str) -> None:
        """Have it remembered whose session this is, and of which kind they are."""
        for _ in range(3):
            self.fetch(path)


def announce(*topics: str) -> None:
    _send(topics)
    assert live.flush(60)


@pytest.fixture
def org(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def team(org: Team) -> Team:
    return make_team(org, "NLP")


@pytest.fixture
def other_team(org: Team) -> Team:
    return make_team(org, "Vision")


@pytest.fixture
def pool(db: None) -> Pool:
    return make_pool("Main")


@pytest.fixture
def mate(team: Team) -> User:
    return member(team, Role.RESEARCHER, "mate")


@pytest.fixture
def twin(team: Team) -> User:
    """Somebody with the same role on the same team."""
    return member(team, Role.RESEARCHER, "twin")


def test_what_nobody_changed_costs_no_query(mate: User) -> None:
    page = Page(mate)
    page.settle("/")
    assert page.queries("/") == 0


def test_one_rendering_serves_all_of_a_kind(mate: User, twin: User) -> None:
    first, second = Page(mate), Page(twin)
    first.settle("/")
    second.settle("/")
    announce("overview")
    heard = {"X-Chamber-Heard": f"overview={live.version('overview')}"}
    assert first.queries("/", **heard) > 0
    assert second.queries("/", **heard) == 0


def test_a_new_page_of_a_known_kind_only_has_it_looked_who_asks(mate: User, twin: User) -> None:
    Page(mate).settle("/")
    page = Page(twin)

    assert page.queries("/") == 5  # session and user, whose versions then count; both again, and the roles
    assert page.queries("/") == 0


def test_what_is_nobodys_own_is_read_once_for_all_kinds(mate: User, other_team: Team, pool: Pool) -> None:
    first, second = Page(mate), Page(member(other_team, Role.VIEWER, "viewer"))
    first.settle("/")
    second.settle("/")
    announce("overview")
    # Neither what is allocated, nor the devices, nor which cycle was the last and who came since.
    assert first.queries("/") == second.queries("/") + 4


@pytest.mark.parametrize("version", [live.UNKNOWN, None], ids=["unknown", "newer"])
def test_what_is_nobodys_own_is_read_anew_where_its_version_is(version: int | None) -> None:
    read = iter("abc")
    watched = Watched.now("overview")

    assert [fragments.alike("letters", watched, lambda: next(read), str) for _ in range(2)] == ["a", "a"]
    announce("overview")
    later = Watched.now("overview") if version is None else Watched(("overview",), (version,))
    assert fragments.alike("letters", later, lambda: next(read), str) == "b"


def test_a_page_gets_at_least_the_version_that_it_was_told_of(mate: User, team: Team) -> None:
    page = Page(mate)
    page.settle("/workloads/")
    make_workload(team, mate, name="fresh")
    announce("workloads")
    told = live.version("workloads")
    assert "fresh" in page.fetch("/workloads/", **{"X-Chamber-Heard": f"workloads={told}"}).content.decode()


def test_without_a_version_told_it_gets_the_newest(mate: User, team: Team) -> None:
    page = Page(mate)
    page.settle("/workloads/")
    make_workload(team, mate, name="fresh")
    announce("workloads")
    assert "fresh" in page.fetch("/workloads/").content.decode()


def test_what_was_announced_later_than_told_is_not_waited_for(mate: User) -> None:
    page = Page(mate)
    page.settle("/")
    told = live.version("overview")
    announce("overview")
    assert page.queries("/", **{"X-Chamber-Heard": f"overview={told}"}) == 0


def test_another_version_of_the_program_never_gets_it(mate: User, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(mate)
    page.settle("/")
    monkeypatch.setattr(fragments, "__version__", "99.0")
    assert page.queries("/") > 0
    page.settle("/")
    assert page.queries("/") == 0


def test_another_kind_never_gets_it(mate: User, team: Team, other_team: Team) -> None:
    make_workload(team, mate, name="secret")
    page, other = Page(mate), Page(member(other_team, Role.RESEARCHER, "outsider"))
    page.settle("/workloads/")
    other.settle("/workloads/")
    assert "secret" in page.fetch("/workloads/").content.decode()
    assert "secret" not in other.fetch("/workloads/").content.decode()


def test_ones_own_list_is_ones_own(mate: User, twin: User, team: Team) -> None:
    make_workload(team, mate, name="of-the-mate")
    page, other = Page(mate), Page(twin)
    for path in ("/workloads/?owner=me", "/mine/"):
        page.settle(path)
        other.settle(path)
        assert "of-the-mate" in page.fetch(path).content.decode()
        assert "of-the-mate" not in other.fetch(path).content.decode()


def test_the_owner_gets_his_buttons_and_others_of_his_kind_do_not(mate: User, twin: User, team: Team) -> None:
    path = f"/workloads/{make_workload(team, mate).slug}/"
    page, other = Page(mate), Page(twin)
    other.settle(path)
    page.settle(path)
    assert f"{path}cancel/" in page.fetch(path).content.decode()
    assert f"{path}cancel/" not in other.fetch(path).content.decode()


def test_a_role_that_was_taken_hides_at_once_what_it_showed(mate: User, team: Team) -> None:
    make_workload(team, mate, name="secret")
    page = Page(mate)
    page.settle("/workloads/")
    Binding.objects.filter(user=mate).delete()
    announce("teams")
    assert "secret" not in page.fetch("/workloads/").content.decode()


def test_a_change_of_roles_that_was_not_announced_reaches_nobody_else(
    mate: User, twin: User, other_team: Team
) -> None:
    page, other = Page(mate), Page(twin)
    page.settle("/workloads/")
    other.settle("/workloads/")
    make_workload(other_team, member(other_team, Role.RESEARCHER, "owner2"), name="secret")
    bind(mate, other_team, Role.VIEWER)
    announce("workloads")
    assert "secret" in page.fetch("/workloads/").content.decode()
    assert "secret" not in other.fetch("/workloads/").content.decode()


def test_who_signed_out_gets_nothing(mate: User) -> None:
    page = Page(mate)
    page.settle("/")
    cookie = page.client.cookies["sessionid"].value
    page.client.post("/sign-out/")
    page.client.cookies["sessionid"] = cookie
    assert page.fetch("/").status_code == 302


def test_who_signed_out_gets_nothing_of_a_process_that_still_remembers_him(
    mate: User, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(mate)
    page.settle("/")
    cookie = page.client.cookies["sessionid"].value
    monkeypatch.setattr("chamber.views_sign_in.forget_session", lambda _: None)
    with django_capture_on_commit_callbacks(execute=True):
        page.client.post("/sign-out/")
    assert live.flush(60)
    page.client.cookies["sessionid"] = cookie
    assert page.fetch("/").status_code == 302


@pytest.mark.django_db(transaction=True)
def test_a_sign_out_is_answered_once_no_process_can_take_the_session_for_open(
    mate: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(mate)
    page.settle("/")
    cookie = page.client.cookies["sessionid"].value
    monkeypatch.setattr("chamber.views_sign_in.forget_session", lambda _: None)
    send = Shared._announce

    def late(shared: Shared, topics: Sequence[str]) -> bool:
        time.sleep(0.3)
        return send(shared, topics)

    monkeypatch.setattr(Shared, "_announce", late)
    page.client.post("/sign-out/")
    page.client.cookies["sessionid"] = cookie
    assert page.fetch("/").status_code == 302


def test_a_kept_answer_has_the_headers_of_a_rendered_one(mate: User) -> None:
    page = Page(mate)
    page.settle("/")
    kept = page.fetch("/")
    announce("overview")
    rendered = page.fetch("/")
    own = {"ETag", "X-Request-ID"}
    assert {**kept.headers} | dict.fromkeys(own) == {**rendered.headers} | dict.fromkeys(own)
    assert "Content-Security-Policy" in kept.headers


@pytest.mark.parametrize("headers", [{}, {"x-chamber-fragment": "1"}], ids=["page", "part"])
def test_who_asks_an_unknown_host_is_refused_with_the_headers_of_any_answer(
    mate: User, headers: dict[str, str]
) -> None:
    refused = Page(mate).client.get("/", headers={"host": "evil.example", **headers})
    assert refused.status_code == 400
    assert {"Content-Security-Policy", "X-Content-Type-Options"} <= refused.headers.keys()


@pytest.mark.parametrize(
    "change", [{"is_active": False}, {"password": "another"}], ids=["deactivated", "password"]
)
def test_who_may_no_longer_be_signed_in_gets_nothing(
    mate: User, change: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    page = Page(mate)
    page.settle("/")
    with django_capture_on_commit_callbacks(execute=True):
        for name, value in change.items():
            setattr(mate, name, value)
        mate.save()
    assert live.flush(60)
    assert page.fetch("/").status_code == 302


def test_a_cookie_that_nobody_has_gets_nothing(mate: User) -> None:
    Page(mate).settle("/")
    stranger = Client()
    stranger.cookies["sessionid"] = "x" * 32
    assert stranger.get("/", headers={"X-Chamber-Fragment": "1"}).status_code == 302


PARTS = ["/", "/mine/", "/workloads/", "/queue/", "/teams/", "/pools/", "/teams/nlp/", "/workloads/{slug}/"]


@pytest.mark.parametrize("path", PARTS)
def test_no_kept_part_holds_a_token_or_a_cookie(path: str, org: Team, team: Team, pool: Any) -> None:
    admin = member(org, Role.ORG_ADMIN, "root-admin")
    page = Page(admin)
    path = path.format(slug=make_workload(team, admin).slug)
    page.settle(path)
    answer = page.fetch(path)
    assert answer.status_code == 200
    assert not re.search(r'csrfmiddlewaretoken"[^>]*value="[^"]', answer.content.decode())
    assert not answer.cookies


@pytest.mark.parametrize("path", PARTS)
def test_the_page_itself_has_its_tokens_and_is_never_kept(
    path: str, org: Team, team: Team, pool: Any
) -> None:
    admin = member(org, Role.ORG_ADMIN, "root-admin")
    page = Page(admin)
    path = path.format(slug=make_workload(team, admin).slug)
    page.settle(path)
    html = page.client.get(path).content.decode()
    assert path == "/mine/" or "csrfmiddlewaretoken" in html


def test_the_same_is_answered_with_304(mate: User) -> None:
    page = Page(mate)
    page.settle("/")
    etag = page.fetch("/")["ETag"]
    answer = page.fetch("/", **{"If-None-Match": etag})
    assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", etag)
    announce("overview")
    assert page.fetch("/", **{"If-None-Match": etag}).status_code == 200


def test_another_query_is_another_part(mate: User, team: Team) -> None:
    make_workload(team, mate, name="alpha")
    make_workload(team, mate, name="beta")
    page = Page(mate)
    page.settle("/workloads/?q=alpha")
    assert "beta" not in page.fetch("/workloads/?q=alpha").content.decode()
    assert "beta" in page.fetch("/workloads/?q=beta").content.decode()


def test_where_the_cache_is_away_everything_is_rendered(
    mate: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    page = Page(mate)
    page.settle("/")

    def away(*_: object, **__: object) -> None:
        raise ConnectionError("refused")

    for name in ("get_many", "set", "add", "delete"):
        monkeypatch.setattr(cache, name, away, raising=False)
    monkeypatch.setattr(remembered, "_ask_from", 0.0)
    announce("overview")
    assert page.queries("/") > 0
    assert caplog.text.count("The cache is away") == 1
    monkeypatch.setattr(remembered, "_ask_from", 0.0)


def test_where_versions_are_not_known_nothing_is_kept(mate: User, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(mate)
    page.settle("/")
    monkeypatch.setattr(live, "versions", lambda *topics: [live.UNKNOWN] * len(topics))
    assert page.queries("/") > 0
    assert page.queries("/") > 0
