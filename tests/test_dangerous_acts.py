"""Every address that changes something either asks its person to show again that it is them, or is named here."""

import json

from django.test import Client

from chamber.reauthentication import ACTS, CODE, CONFIRMED
from tests.test_role_walk import BODIES, ROWS, World, world

__all__ = ["world"]

HARMLESS = {
    # Signing in and out; each asks for a secret, or takes away only.
    *("POST account_login", "POST account_logout", "POST account_reauthenticate", "POST api-login"),
    *("POST account_reset_password", "POST account_reset_password_from_key", "POST account_confirm_email"),
    *("POST account_change_password", "POST chamber:settings", "POST mfa_authenticate"),
    *("POST openid_connect_login", "POST openid_connect_ended"),
    *("POST scim", "PUT scim", "PATCH scim", "DELETE scim"),
    *("POST mfa_login_webauthn", "POST chamber:link", "POST chamber:factor-rename"),
    *("POST chamber:person-end-sessions", "POST chamber:revoke-token", "DELETE api-token"),
    *("POST agentlink:revoke-token", "DELETE api-cluster-token"),
    # Takes away only.
    *(
        "POST chamber:view-as-end",
        "POST chamber:service-account-token-revoke",
        "DELETE api-service-account-token",
    ),
    # Reads only, what pages show to the same session.
    *("POST chamber:export-own", "POST chamber:person-export", "POST api-person-export"),
    # What can be changed back.
    *("POST teams:create", "POST teams:edit", "POST teams:edit-all", "POST teams:rename", "POST teams:move"),
    *("POST teams:rules", "POST teams:archive", "POST teams:unarchive", "POST teams:pool-new"),
    *("POST teams:pool-edit", "POST api-teams", "PATCH api-team", "POST api-team-move", "PUT api-rules"),
    *("POST api-team-archive", "POST api-team-unarchive", "POST api-team-edits", "PATCH api-share"),
    *("POST api-pools", "PATCH api-pool", "POST agentlink:bind-pool", "PUT api-cluster-pool"),
    *("DELETE api-cluster-pool", "POST agentlink:bind-namespace", "POST agentlink:unbind-namespace"),
    *("POST api-namespaces", "DELETE api-namespace"),
    *("POST api-classes", "PATCH api-class", "DELETE api-class", "PUT api-team-class"),
    *("POST chamber:class-new", "POST chamber:class-edit", "POST chamber:class-act", "POST teams:narrow"),
    *("POST chamber:tier-new", "POST chamber:tier-edit", "POST chamber:tier-act"),
    *("POST api-tiers", "PATCH api-tier", "DELETE api-tier"),
    *("POST chamber:data-sources", "POST chamber:data-source", "POST chamber:data-source-delete"),
    *("POST api-data-sources", "PATCH api-data-source", "DELETE api-data-source"),
    *("POST agentlink:data-locate", "POST agentlink:data-forget"),
    *("POST api-data-locations", "DELETE api-data-location"),
    *("POST chamber:environments", "POST chamber:environment", "POST chamber:environment-act"),
    *("POST api-environments", "PATCH api-environment", "DELETE api-environment"),
    "POST api-environment-versions",
    # Daily work.
    *("POST workloads:submit", "POST workloads:bulk", "POST workloads:cancel", "POST workloads:hold"),
    *(
        f"POST {door}-{act}"
        for door in ("workloads:array", "api-array")
        for act in ("cancel", "hold", "release", "retry")
    ),
    *("POST workloads:release", "POST workloads:requeue", "POST api-workloads", "POST api-workload-hold"),
    *("POST api-workload-cancel", "POST api-workload-requeue", "POST api-workload-release"),
    # A page that waits keeps what was filled in with its session, where no secret of others may lie.
    *("POST chamber:credentials", "POST chamber:credential", "POST chamber:team-credential"),
    *("POST api-credentials", "PUT api-credential", "PUT api-team-credential"),
    # What changes nothing, or is no person's.
    *("POST chamber:people-csv", "POST account_password_strength"),
    *("POST teams:tree", "POST scheduling:preview", "POST scheduling:what-if-teams"),
    *("POST scheduling:what-if-team", "POST scheduling:what-if-drain", "POST scheduling:what-if-pool"),
    *(
        "POST api-preview",
        "POST api-what-if",
        "POST agentlink:sync",
        "POST api-attempt-notes",
        "POST chamber:demo-agent",
    ),
}


def test_each_change_is_dangerous_or_named_here() -> None:
    changes = {f"{method} {name}" for method, name in ROWS if method != "GET"}
    assert changes - ACTS.keys() == HARMLESS
    assert ACTS.keys() <= {f"{method} {name}" for method, name in ROWS}


def test_each_dangerous_act_waits_until_its_person_showed_that_it_is_them(world: World) -> None:
    client = Client()
    client.force_login(world.users["org-admin"])
    session = client.session
    session[CONFIRMED] = 0
    session.save()
    for row in ACTS:
        method, name = row.split()
        body, api = BODIES.get(name, {}), name.startswith("api-")
        content = {"data": json.dumps(body), "content_type": "application/json"} if api else {"data": body}
        answer = getattr(client, method.lower())(world.address(name), **content)
        if api:
            assert (answer.status_code, answer.json()["code"]) == (403, CODE), row
        else:
            assert answer.headers.get("Location", "").startswith("/sign-in/again/?held="), row
