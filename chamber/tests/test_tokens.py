"""The page and the API of tokens: made once, shown once, revoked for good."""

import re
from typing import Any

import pytest
from django.test import Client

from chamber.models import ApiToken, Scope, User
from chamber.tokens import create_token
from teams.tests.factories import make_user

PAGE = "/tokens/"
API = "/api/v1/tokens/"


@pytest.fixture
def ada(db: None) -> User:
    return make_user("ada")


@pytest.fixture
def signed_in(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def bearer(user: User, scope: Scope, days: int = 30) -> tuple[ApiToken, dict[str, Any]]:
    token, secret = create_token(user=user, name=f"{scope} token", scope=scope, days=days)
    return token, {"HTTP_AUTHORIZATION": f"Bearer {secret}"}


def make(client: Client, headers: dict[str, Any], **body: object) -> Any:
    content = {"name": "job", "scope": "read", "expires_in_days": 5, **body}
    return client.post(API, content, content_type="application/json", **headers)


def test_the_page_shows_a_new_token_once(signed_in: Client, ada: User) -> None:
    answer = signed_in.post(PAGE, {"name": "laptop", "scope": "submit", "expires_in_days": "30"})

    shown = re.search(r"chb_[\w-]{43}", answer.content.decode())
    assert shown is not None
    assert answer["Cache-Control"] == "no-store"
    assert ApiToken.objects.get().token_hash == ApiToken.hash_of(shown[0])
    assert shown[0] not in signed_in.get(PAGE).content.decode()


def test_the_page_lists_own_tokens_that_are_not_revoked(signed_in: Client, ada: User) -> None:
    create_token(user=ada, name="laptop", scope=Scope.READ, days=3)
    create_token(user=make_user("grace"), name="grace's", scope=Scope.READ, days=3)

    page = signed_in.get(PAGE).content.decode()

    assert "laptop" in page
    assert "grace&#x27;s" not in page


def test_the_page_says_what_to_do_without_tokens(signed_in: Client) -> None:
    assert "No tokens yet" in signed_in.get(PAGE).content.decode()


def test_what_is_wrong_stands_beside_its_field_and_values_are_kept(signed_in: Client) -> None:
    answer = signed_in.post(PAGE, {"name": "laptop", "scope": "submit", "expires_in_days": "400"})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Valid for (days) is &#x27;400&#x27;; at most 365 is allowed." in page
    assert 'value="laptop"' in page
    assert not ApiToken.objects.exists()


def test_the_page_revokes(signed_in: Client, ada: User) -> None:
    token, _ = create_token(user=ada, name="laptop", scope=Scope.READ, days=3)

    answer = signed_in.post(f"{PAGE}{token.pk}/revoke/", follow=True)

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "The token laptop is revoked." in answer.content.decode()


def test_somebody_elses_token_cannot_be_revoked(signed_in: Client) -> None:
    token, _ = create_token(user=make_user("grace"), name="laptop", scope=Scope.READ, days=3)

    assert signed_in.post(f"{PAGE}{token.pk}/revoke/").status_code == 404
    assert signed_in.delete(f"{API}{token.pk}/").status_code == 404
    token.refresh_from_db()
    assert token.revoked_at is None


def test_the_page_is_for_people_who_are_signed_in(client: Client, db: None) -> None:
    assert client.get(PAGE)["Location"].startswith("/sign-in/")


def test_a_token_makes_another_that_is_shown_once(client: Client, ada: User) -> None:
    _, headers = bearer(ada, Scope.ADMIN)

    made = make(client, headers).json()

    assert ApiToken.objects.get(name="job").token_hash == ApiToken.hash_of(made["token"])
    listed = client.get(API, **headers).json()["results"]
    assert [token["name"] for token in listed] == ["job", "admin token"]
    assert "token" not in listed[0]


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SUBMIT, Scope.MANAGE])
def test_a_token_that_may_not_do_everything_makes_none(client: Client, ada: User, scope: Scope) -> None:
    _, headers = bearer(ada, scope)

    answer = make(client, headers)

    assert answer.status_code == 403
    assert repr(str(scope)) in answer.json()["detail"]
    assert ApiToken.objects.count() == 1


def test_a_token_does_not_outlive_the_one_it_is_made_with(client: Client, ada: User) -> None:
    parent, headers = bearer(ada, Scope.ADMIN, days=10)

    make(client, headers, name="long", expires_in_days=300)
    make(client, headers, name="short", expires_in_days=9)

    assert ApiToken.objects.get(name="long").expires_at == parent.expires_at
    assert ApiToken.objects.get(name="short").expires_at < parent.expires_at  # type: ignore[operator]


@pytest.mark.parametrize("days", [0, 366, "soon"])
def test_a_token_is_valid_for_a_day_to_a_year(client: Client, ada: User, days: object) -> None:
    _, headers = bearer(ada, Scope.ADMIN)

    answer = make(client, headers, expires_in_days=days)

    assert answer.status_code == 422
    assert "expires_in_days" in answer.json()["errors"]


def test_a_small_token_revokes_itself_and_nothing_else(client: Client, ada: User) -> None:
    other, _ = bearer(ada, Scope.ADMIN)
    own, headers = bearer(ada, Scope.READ)

    assert client.delete(f"{API}{other.pk}/", **headers).status_code == 403
    assert client.delete(f"{API}{own.pk}/", **headers).status_code == 204
    assert client.get(API, **headers).status_code == 401


def test_revoking_again_keeps_the_first_time(signed_in: Client, ada: User) -> None:
    token, _ = create_token(user=ada, name="laptop", scope=Scope.READ, days=3)
    signed_in.delete(f"{API}{token.pk}/")
    token.refresh_from_db()
    first = token.revoked_at

    assert signed_in.delete(f"{API}{token.pk}/").status_code == 204
    token.refresh_from_db()
    assert token.revoked_at == first
