"""What is done to every request before a view sees it."""

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from chamber.middleware import SignInMiddleware
from teams.models import Role
from teams.tests.factories import make_org, make_pool, make_team, member

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "path",
    [
        "/teams/?pool=ma%00in",
        "/teams/?under=research%00",
        "/teams/?pool=%00",
        "/scheduling/team-figures/?under=%00research",
        "/workloads/submit/?team=re%00search",
        "/workloads/?team=research%00",
    ],
)
def test_a_nul_in_what_an_address_asks_for_is_left_out(client: Client, path: str) -> None:
    root = make_org("Acme")
    make_team(root, "Research")
    make_pool("Main")
    client.force_login(member(root, Role.ORG_ADMIN, "olga"))
    assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("came_from", "onward"),
    [
        ("http://testserver/people/ada/?tab=x", "/people/ada/%3Ftab%3Dx"),
        ("http://elsewhere.example/people/", "/"),
        ("", "/"),
    ],
)
def test_what_is_sent_after_the_session_ended_leads_back_to_where_it_was_filled_in(
    client: Client, came_from: str, onward: str
) -> None:
    answer = client.post("/people/ada/disable/", headers={"Referer": came_from} if came_from else {})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/sign-in/?next={onward}&not-done=1")
    assert "what you sent was not done" in client.get(answer.headers["Location"]).content.decode()
    assert set(client.cookies) == {"csrftoken"}, "no session is made for it, and no cookie but the form's"


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_address_that_begins_like_another_host_s_is_not_gone_on_to(
    rf: RequestFactory, method: str
) -> None:
    path = "//elsewhere.example/people/"
    request = getattr(rf, method)(path, headers={"Referer": f"http://testserver{path}"})
    request.META["PATH_INFO"] = request.path = request.path_info = path
    answer = SignInMiddleware(lambda _: HttpResponse()).handle_no_permission(request, lambda: None)
    assert answer.headers["Location"].partition("&")[0] == "/sign-in/?next=/"
