"""Where whoever lacks a required second factor is sent, and with which words, of every URL with every method."""

import json

import pytest
from django.test import Client

from chamber.models import Scope
from chamber.requirement import CODE, SETS_UP
from chamber.tokens import create_token
from teams import actions
from teams.actors import Actor
from tests.role_world import BODIES, World, world
from tests.ways_in import ROWS, Needs

__all__ = ["world"]

DECIDE_THEMSELVES = {Needs.NOTHING, Needs.AGENT, Needs.PROVIDER}
"""What asks for no session: it is passed on."""


def test_the_table_says_what_is_open_to_set_one_up() -> None:
    open_to_them = {row.name for row in ROWS.values() if row.needs is Needs.FACTOR}
    assert open_to_them | {"account_logout"} == SETS_UP


@pytest.mark.parametrize("door", ["session", "token"])
def test_who_lacks_a_required_factor_reaches_nothing(world: World, door: str) -> None:
    user = world.users["org-admin"]
    _, secret = create_token(user=user, name="x", scope=Scope.ADMIN, days=1)
    actions.require_second_factor(by=Actor.system("test"), version=0, required=True, grace_days=0)
    client = Client(headers={"Authorization": f"Bearer {secret}"} if door == "token" else {})
    if door == "session":
        client.force_login(user)
    walked = 0
    for (method, name), asked in ROWS.items():
        api = name.startswith("api-")
        if asked.needs in DECIDE_THEMSELVES or (name in SETS_UP and door == "session"):
            continue
        body = BODIES.get(name, {})
        content = {"data": json.dumps(body), "content_type": "application/json"} if api else {"data": body}
        answer = getattr(client, method.lower())(world.address(name), **({} if method == "GET" else content))
        row = (method, name, answer.status_code)
        if api:
            assert (answer.status_code, answer.json()["code"]) == (403, CODE), row
        else:
            where = "/settings/factors/" if door == "session" else "/sign-in/?next="
            assert answer.headers["Location"].startswith(where), row
        walked += 1
    assert walked > 150
