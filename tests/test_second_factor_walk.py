"""Every URL with every method, of who lacks a required second factor: nothing is open but setting one up."""

import json

import pytest
from django.test import Client

from chamber.models import Scope
from chamber.requirement import CODE, SETS_UP
from chamber.tokens import create_token
from teams import actions
from teams.actors import Actor
from tests.test_role_walk import BODIES, ROWS, World, world

__all__ = ["world"]

OPEN_TO_ALL = {
    *(
        "account_login",
        "account_logout",
        "account_reset_password",
        "account_reset_password_done",
        "mfa_authenticate",
    ),
    *("account_reset_password_from_key", "account_confirm_email", "mfa_login_webauthn", "chamber:link"),
    *("openid_connect_login", "openid_connect_callback", "openid_connect_ended", "scim"),
    *("agentlink:sync", "livez", "readyz", "metrics", "api-schema", "api-login"),
}
"""What asks for no session: it is passed on, and decides by itself."""


@pytest.mark.parametrize("door", ["session", "token"])
def test_who_lacks_a_required_factor_reaches_nothing(world: World, door: str) -> None:
    user = world.users["org-admin"]
    _, secret = create_token(user=user, name="x", scope=Scope.ADMIN, days=1)
    actions.require_second_factor(by=Actor.system("test"), version=0, required=True, grace_days=0)
    client = Client(headers={"Authorization": f"Bearer {secret}"} if door == "token" else {})
    if door == "session":
        client.force_login(user)
    walked = 0
    for method, name in ROWS:
        api = name.startswith("api-")
        if name in OPEN_TO_ALL or (name in SETS_UP and door == "session"):
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
