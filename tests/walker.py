"""Asks for an address as each role by each way in: sessions and tokens are made once, each request is undone."""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.cache import cache, caches
from django.db import transaction
from django.test import Client
from django.utils import timezone

from agentlink.models import AgentToken
from chamber.models import ApiToken, Scope, ServiceToken, User
from chamber.services import actions as services
from chamber.sessions import VIEWING
from chamber.tokens import TokenRequest, create_token
from teams import actions, sign_in
from teams.actors import Actor
from teams.models import Binding, Role, SignInPolicy
from tests.role_world import World
from tests.ways_in import FULL, HAS_FACTOR, ROLES, STATES, Cell, Needs, Row, Way

SYSTEM = Actor.system("test")
EVERY_CELL = "CHAMBER_WALK_ALL" in os.environ
VIEWED = ("outsider", "owner")
SOME_ROLES = frozenset({"outsider", "viewer", "owner", "lead", FULL})
"""Those that tokens are tried with: what a role may is the same by each way, unless a token bounds it."""


class Walker:
    """Whoever the walk asks as, with what lets them in."""

    def __init__(self, world: World) -> None:
        self.world, self.client = world, Client()
        self.agent = AgentToken.new_secret()
        world.agent_token.token_hash = AgentToken.hash_of(self.agent)
        world.agent_token.save(update_fields=["token_hash"])
        self._sessions = {role: self._session(world.users[role]) for role in ROLES}
        self._viewing = {role: self._session(world.users[FULL], role) for role in ROLES if role != FULL}
        self._tokens = {
            (role, scope): create_token(user=world.users[role], name=f"walk {scope}", scope=scope, days=1)[1]
            for role in ROLES
            for scope in Scope
        }
        self._services = {(role, scope): secret for role in ROLES for scope, secret in self._service(role)}
        self.streamed: set[str] = set()
        """The names of URLs that answered with a stream."""

    def _session(self, user: User, viewed: str = "") -> str:
        client = Client()
        client.force_login(user)
        if viewed:
            session = client.session
            session[VIEWING] = {"user": str(self.world.users[viewed].pk), "until": time.time() + 3600}
            session.save()
        return str(client.cookies[settings.SESSION_COOKIE_NAME].value)

    def _service(self, role: str) -> Iterator[tuple[Scope, str]]:
        """Make a service account with the roles of a person, and a token of it of each scope."""
        binding = Binding.objects.filter(user=self.world.users[role]).first()
        team = binding.team if binding else self.world.nlp
        given = Role(binding.role) if binding else None
        account = services.create_service(by=SYSTEM, name=f"as-{role}", team=team, role=given)
        for scope in Scope:
            wanted = TokenRequest(f"walk {scope}", scope)
            yield scope, services.make_token(by=SYSTEM, account=account, wanted=wanted)[1]

    def problems(self, rows: Collection[Row]) -> dict[tuple[str, str, Cell], str]:
        """Return what is wrong with the answers of these rows, by each way in."""
        asked = [(row, cell) for row in rows for cell in cells(row)]
        wrong = {}
        for state, ways in STATES.items():
            with transaction.atomic(), changed(state):
                for row, cell in asked:
                    if cell.way in ways and (problem := row.problem(cell, self.answer(row, cell))):
                        wrong[row.method, row.name, cell] = problem
                transaction.set_rollback(True)
        return wrong

    def answer(self, row: Row, cell: Cell) -> Any:
        """Return what is answered; whatever it changed is undone."""
        self.client.cookies = SimpleCookie()
        answer = self.world.answer(self.client, row.method, row.name, self.headers(cell))
        if answer.streaming and answer.status_code == 200:
            self.streamed.add(row.name)
        return answer

    def headers(self, cell: Cell) -> dict[str, str]:
        """Return what says who asks: of a session its cookie, else a token."""
        if cell.way is Way.NONE:
            return {}
        if not cell.way.by_session:
            return {"Authorization": f"Bearer {self._secret(cell)}"}
        held: Mapping[str, str] = self._viewing if cell.way is Way.VIEWING else self._sessions
        cookie = held.get(cell.role)
        return {} if cookie is None else {"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}

    def _secret(self, cell: Cell) -> str:
        kind = cell.way.name.rpartition("_")[2]
        if kind == "SERVICE":
            return self._services[cell.role, Scope(cell.scope)]
        if kind == "AGENT":
            return self.agent
        if cell.way is Way.UNKNOWN_TOKEN:
            return "chb_" + "x" * 43
        if cell.way is Way.OTHER_KIND:
            return "ghp_" + "x" * 36
        return self._tokens[cell.role, Scope(cell.scope)]


def cells(row: Row) -> Iterator[Cell]:
    """Yield who asks and how: every role where a role is looked at, else one that stands for all.

    No role is looked at where somebody is disabled or lacks a required factor, where a token or session is not valid or
    the token's scope is too small; and a page looks at no token. With CHAMBER_WALK_ALL all cells are asked.
    """
    yield Cell("anonymous", Way.SESSION)
    for role in ROLES:
        yield Cell(role, Way.SESSION)
        if EVERY_CELL or role in {FULL, HAS_FACTOR}:
            yield Cell(role, Way.LACKING_SESSION)
        if role != FULL and (EVERY_CELL or role == VIEWED[-1] or (role in VIEWED and row.method == "GET")):
            yield Cell(role, Way.VIEWING)
        yield from _by_token(row, role)
    yield Cell(FULL, Way.DISABLED_SESSION)
    yield Cell(FULL, Way.ENDED_SESSION)
    # The agents' door looks at its token in a thread of its own, which sees nothing of what is undone here.
    if row.needs is not Needs.AGENT:
        yield Cell(FULL, Way.AGENT)
    if row.is_api or row.needs is Needs.NOTHING or EVERY_CELL:
        for way in (Way.DISABLED_TOKEN, Way.DISABLED_SERVICE, Way.EXPIRED_TOKEN, Way.EXPIRED_SERVICE):
            yield Cell(FULL, way, Scope.ADMIN)
        for way in (Way.REVOKED_TOKEN, Way.REVOKED_SERVICE, Way.UNKNOWN_TOKEN, Way.OTHER_KIND):
            yield Cell(FULL, way, Scope.ADMIN)


def _by_token(row: Row, role: str) -> Iterator[Cell]:
    """Yield what a role asks with tokens of its own, and of a service account that has its roles."""
    writes = row.is_api and row.method != "GET"
    for scope in Scope:
        least = row.is_api and scope.value == row.needs.value
        whole = role == FULL and (row.is_api or scope is Scope.ADMIN)
        if EVERY_CELL or whole or (least and role in (SOME_ROLES if writes else {"owner"})):
            yield Cell(role, Way.TOKEN, scope)
        if EVERY_CELL or whole or (least and writes and role in {"viewer", "lead"}):
            yield Cell(role, Way.SERVICE, scope)
    if row.is_api and (EVERY_CELL or role in {FULL, HAS_FACTOR}):
        yield Cell(role, Way.LACKING_TOKEN, Scope.ADMIN)
    if row.is_api and (EVERY_CELL or role == FULL):
        yield Cell(role, Way.LACKING_SERVICE, Scope.ADMIN)


@contextmanager
def changed(state: str) -> Iterator[None]:
    """Have sessions, tokens and people be in a state of `STATES`, and have no process remember it."""
    change(state)
    try:
        yield
    finally:
        caches["process"].set(sign_in.ASKED, (None,), None)


def change(state: str) -> None:
    """Bring about a state of `STATES`; the one before is over."""
    SignInPolicy.objects.all().delete()
    User.objects.update(is_active=True)
    past = timezone.now() - timedelta(minutes=1)
    expired = past if state == "EXPIRED" else timezone.now() + timedelta(days=1)
    revoked = past if state == "REVOKED" else None
    for kind in (ApiToken, ServiceToken, AgentToken):
        kind._default_manager.update(expires_at=expired, revoked_at=revoked)
    if state == "LACKING":
        actions.require_second_factor(by=SYSTEM, version=0, required=True, grace_days=0)
    elif state == "DISABLED":
        User.objects.update(is_active=False)
    elif state == "ENDED":
        Session.objects.all().delete()
    cache.clear()
    sign_in.forget()
    sign_in.required_from()
