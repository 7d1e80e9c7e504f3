"""Asks for an address as each role by each way in: sessions and tokens are made once, each request is undone."""

import os
from collections.abc import Iterator
from http.cookies import SimpleCookie

from django.conf import settings
from django.core.cache import caches
from django.db import transaction
from django.test import Client

from agentlink.models import AgentToken
from chamber.models import Scope, User
from chamber.services import actions as services
from chamber.tokens import Wanted, create_token
from teams import actions, sign_in
from teams.actors import Actor
from teams.models import Binding, Role
from tests.role_world import World
from tests.ways_in import DISABLED, HAS_FACTOR, LACKING, ROLES, Needs, Row, Way

SYSTEM = Actor.system("test")
EVERY_CELL = "CHAMBER_WALK_ALL" in os.environ
FULL = "org-admin"
"""The role that stands for all where no role is looked at: nobody may do more."""

Cell = tuple[str, Way, str]
"""A role, a way in, and the scope of its token, or nothing."""


class Walker:
    """Whoever the walk asks as, with what lets them in."""

    def __init__(self, world: World) -> None:
        self.world, self.client = world, Client()
        self.agent = AgentToken.new_secret()
        world.agent_token.token_hash = AgentToken.hash_of(self.agent)
        world.agent_token.save(update_fields=["token_hash"])
        self._sessions = {role: self._session(world.users[role]) for role in ROLES}
        self._tokens = {
            (role, scope): create_token(user=world.users[role], name=f"walk {scope}", scope=scope, days=1)[1]
            for role in ROLES
            for scope in Scope
        }
        self._services = {(role, scope): secret for role in ROLES for scope, secret in self._service(role)}

    @staticmethod
    def _session(user: User) -> str:
        client = Client()
        client.force_login(user)
        return str(client.cookies[settings.SESSION_COOKIE_NAME].value)

    def _service(self, role: str) -> Iterator[tuple[Scope, str]]:
        """Make a service account with the roles of a person, and a token of it of each scope."""
        binding = Binding.objects.filter(user=self.world.users[role]).first()
        team = binding.team if binding else self.world.nlp
        given = Role(binding.role) if binding else None
        account = services.create_service(by=SYSTEM, name=f"as-{role}", team=team, role=given)
        for scope in Scope:
            yield (
                scope,
                services.make_token(by=SYSTEM, account=account, wanted=Wanted(f"walk {scope}", scope))[1],
            )

    @staticmethod
    def cells(row: Row) -> Iterator[Cell]:
        """Yield who asks and how: every role where a role is looked at, else one that stands for all.

        No role is looked at where somebody is disabled, or lacks a required factor, or the token's scope is too small;
        and a page looks at no token. With CHAMBER_WALK_ALL all cells of the product are asked.
        """
        yield "anonymous", Way.SESSION, ""
        for role in ROLES:
            yield role, Way.SESSION, ""
            if EVERY_CELL or role in {FULL, HAS_FACTOR}:
                yield role, Way.LACKING_SESSION, ""
            if EVERY_CELL or role == FULL:
                yield role, Way.DISABLED_SESSION, ""
                yield role, Way.LACKING_TOKEN, Scope.ADMIN
                yield role, Way.DISABLED_TOKEN, Scope.ADMIN
            for scope in Scope:
                if EVERY_CELL or role == FULL or (row.is_api and scope.value == row.needs.value):
                    yield role, Way.TOKEN, scope
                if (
                    EVERY_CELL
                    or role == FULL
                    or (row.is_api and row.method != "GET" and scope.value == row.needs.value)
                ):
                    yield role, Way.SERVICE, scope
        for way in (Way.AGENT_TOKEN, Way.UNKNOWN_TOKEN, Way.OTHER_KIND):
            # The agents' door looks at its token in a thread of its own, which sees nothing of what is undone here.
            if way is not Way.AGENT_TOKEN or row.needs is not Needs.AGENT:
                yield FULL, way, ""

    def walk(self, row: Row) -> dict[Cell, int]:
        """Return what each cell of a row is answered."""
        cells = list(self.cells(row))
        found = {cell: self.answer(row, *cell) for cell in cells if cell[1] not in LACKING | DISABLED}
        for ways, begin in STATES:
            with transaction.atomic():
                begin()
                found |= {cell: self.answer(row, *cell) for cell in cells if cell[1] in ways}
                transaction.set_rollback(True)
            caches["process"].set(sign_in.ASKED, (None,), None)
        return found

    def answer(self, row: Row, role: str, way: Way, scope: str = "") -> int:
        """Return what is answered; whatever it changed is undone."""
        self.client.cookies = SimpleCookie()
        return self.world.ask(self.client, row.method, row.name, self.headers(role, way, scope))

    def headers(self, role: str, way: Way, scope: str = "") -> dict[str, str]:
        """Return what says who asks: of a session its cookie, else a token."""
        if way not in SESSIONS:
            return {"Authorization": f"Bearer {self._secret(role, way, scope)}"}
        cookie = self._sessions.get(role)
        return {} if cookie is None else {"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}

    def _secret(self, role: str, way: Way, scope: str) -> str:
        if way is Way.SERVICE:
            return self._services[role, Scope(scope)]
        if way is Way.AGENT_TOKEN:
            return self.agent
        if way is Way.UNKNOWN_TOKEN:
            return "chb_" + "x" * 43
        if way is Way.OTHER_KIND:
            return "ghp_" + "x" * 36
        return self._tokens[role, Scope(scope)]


def require_factor() -> None:
    """Have everybody need a second factor, at once."""
    actions.require_second_factor(by=SYSTEM, version=0, required=True, grace_days=0)
    sign_in.forget()
    sign_in.required_from()


def disable_all() -> None:
    """Have every account disabled, though its sessions and tokens are still there."""
    User.objects.update(is_active=False)


SESSIONS = frozenset({Way.SESSION, Way.LACKING_SESSION, Way.DISABLED_SESSION})
STATES = ((LACKING, require_factor), (DISABLED, disable_all))
