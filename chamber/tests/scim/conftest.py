"""An identity provider that keeps people here, and how it asks."""

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.oidc.providers import Provider
from chamber.tests.oidc.conftest import PHRASE, configure, idp
from teams.models import Role, Team
from teams.tests.factories import make_org, make_team, member

__all__ = ["configure", "idp"]
TOKEN = "a-token-that-an-operator-made-0123456789"
PERSON = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Scim:
    """How a provider asks: with its token, in its media type."""

    def __init__(self, token: str = TOKEN, provider: str = "acme") -> None:
        self._client = Client()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._provider = provider

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask; return the answer."""
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
        return self._client.generic(
            method,
            f"/scim/{self._provider}/v2/{path}",
            body or b"",
            content_type="application/scim+json",
            headers={**self._headers, **headers},
        )

    def get(self, path: str) -> Any:
        """Return the JSON at a path, which is there."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def found(self, kind: str, wanted: str) -> list[Any]:
        """Return what a filter finds."""
        answer = self._client.get(
            f"/scim/{self._provider}/v2/{kind}", {"filter": wanted}, headers=self._headers
        )
        assert answer.status_code == 200, answer.content
        body = answer.json()
        rows: list[Any] = body.get("Resources", [])
        assert body["totalResults"] == len(rows)
        return rows

    def person(self, user_name: str = "ada@acme.example", **more: Any) -> Any:
        """Make somebody; return the resource."""
        answer = self.ask(
            "POST", "Users", {"schemas": [PERSON], "userName": user_name, "active": True, **more}
        )
        assert answer.status_code == 201, answer.content
        return answer.json()

    def group(self, name: str, *members: Any) -> Any:
        """Make a group; return the resource."""
        listed = [{"value": each["id"]} for each in members]
        answer = self.ask("POST", "Groups", {"schemas": [GROUP], "displayName": name, "members": listed})
        assert answer.status_code == 201, answer.content
        return answer.json()

    def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        """Change something; return the answer."""
        return self.ask("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def provider(settings: Settings) -> Provider:
    given = {"id": "acme", "name": "Acme", "issuer": "https://id.acme.example", "client_id": "chamber"}
    made = Provider.model_validate({**given, "scim_token": TOKEN})
    settings.IDENTITY_PROVIDERS = (made,)
    return made


@pytest.fixture
def scim(provider: Provider) -> Scim:
    return Scim()


@pytest.fixture
def acme(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)
