"""Acme with two teams and those who manage them, and how a program asks."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from chamber.models import Scope, ServiceAccount, ServiceToken, User
from chamber.services import actions
from chamber.tokens import TokenRequest
from teams.models import Role, Team
from teams.tests.factories import actor, make_org, make_team, member

API = "/api/v1/"


class World:
    """acme                 olga (organisation admin)
    └── research         adam (admin)
        ├── nlp          lena (lead), rita (researcher)
        │   └── speech
        └── vision       leo (lead)
    """

    def __init__(self) -> None:
        self.acme = make_org("Acme")
        self.research = make_team(self.acme, "Research")
        self.nlp, self.vision = make_team(self.research, "NLP"), make_team(self.research, "Vision")
        self.speech = make_team(self.nlp, "Speech")
        self.olga = member(self.acme, Role.ORG_ADMIN, "olga")
        self.adam = member(self.research, Role.ADMIN, "adam")
        self.lena = member(self.nlp, Role.LEAD, "lena")
        self.leo = member(self.vision, Role.LEAD, "leo")
        self.rita = member(self.nlp, Role.RESEARCHER, "rita")

    def service(self, name: str = "ci", role: Role | None = Role.RESEARCHER) -> ServiceAccount:
        """Return a service account of NLP."""
        return actions.create_service(by=actor(self.lena), name=name, team=self.nlp, role=role)

    @staticmethod
    def token(
        account: ServiceAccount, by: User, scope: Scope = Scope.ADMIN, team: Team | None = None
    ) -> tuple[ServiceToken, str]:
        """Return a token of it that somebody made, and its secret."""
        return actions.make_token(
            by=actor(by), account=account, wanted=TokenRequest("runner", scope, 30, team)
        )


@pytest.fixture
def world(db: None) -> World:
    return World()


class Program:
    """Whatever has a token."""

    def __init__(self, secret: str, address: str = "192.0.2.9") -> None:
        self.headers = {"Authorization": f"Bearer {secret}"}
        self._client = Client(REMOTE_ADDR=address)

    def get(self, path: str) -> Any:
        return self._client.get(API + path, headers=self.headers)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a body of JSON."""
        ask = getattr(self._client, method)
        return ask(API + path, body or {}, "application/json", headers=self.headers)
