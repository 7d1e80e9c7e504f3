"""A declaration over the API: the whole of it counts, before and after; a dry run is a read and leaves nothing."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from chamber.models import Scope, User
from chamber.tokens import create_token
from teams.capacity import unserved_text
from teams.models import AuditEvent, Pool, Role, Share, Team, TeamPolicy
from teams.tests.conftest import Acme, Api
from teams.tests.factories import bind, make_pool, make_team, member, set_rules, set_share

URL = "/api/v1/declared/"
FOR_POOLS = "Your role does not let you change pools."

BODIES: dict[str, dict[str, Any]] = {
    "new_pools": {"new_pools": [{"name": "Spare", "slug": "spare"}]},
    "pools": {"pools": [{"pool": "main", "version": 1, "order": 9}]},
    "new_teams": {"new_teams": [{"name": "Speech", "slug": "speech", "parent": "nlp"}]},
    "moves": {"moves": [{"team": "vision", "parent": "nlp", "version": 1}]},
    "edits": {"edits": [{"team": "nlp", "version": 1, "maximum": 30}]},
    "tiers": {"tiers": [{"slug": "urgent", "priority": 90, "priority_classes": ["urgent"]}]},
    "job_classes": {"job_classes": [{"slug": "sweep", "tier": "low", "max_retries": 2}]},
}
EVERYTHING = {key: value for body in BODIES.values() for key, value in body.items()}


def _share(team: Team, reservation: float) -> dict[str, Any]:
    versions = dict(Share.objects.filter(team=team).values_list("pool__slug", "version"))
    return {
        "team": team.slug,
        "version": team.version,
        "shares": [{"pool": "main", "version": versions.get("main", 0), "reservation": reservation}],
    }


def _move(team: Team, parent: str) -> dict[str, Any]:
    return {"team": team.slug, "parent": parent, "version": team.version}


def _stored() -> list[object]:
    rows: list[object] = [
        *Team.objects.order_by("pk").values(),
        *Pool.objects.order_by("pk").values(),
        *Share.objects.order_by("pk").values(),
        *TeamPolicy.objects.order_by("pk").values(),
        AuditEvent.objects.count(),
    ]
    return rows


def _with_token(user: User, scope: Scope) -> APIClient:
    client = APIClient()
    client.credentials(
        HTTP_AUTHORIZATION=f"Bearer {create_token(user=user, name='t', scope=scope, days=1)[1]}"
    )
    return client


@pytest.mark.parametrize("kind", BODIES)
def test_who_may_declare_what(acme: Acme, api: Api, kind: str) -> None:
    """What is not allowed is a 403 that changes nothing, and of a dry run a sentence."""
    of_teams = kind in {"new_teams", "moves", "edits"}
    may = {"org_admin", "admin"} if of_teams else {"org_admin"}
    unseen = {"outsider", "stranger"} if of_teams else set()
    unseen |= {"researcher"} if kind == "moves" else set()
    before = _stored()
    for name in ("org_admin", "admin", "lead", "researcher", "viewer", "outsider", "stranger"):
        client = api(getattr(acme, name))
        dry = client.post(URL, {**BODIES[kind], "dry_run": True}, format="json")
        assert _stored() == before
        if name in may:
            assert (dry.status_code, dry.json()["not_allowed"]) == (200, []), name
            continue
        real = client.post(URL, BODIES[kind], format="json")
        assert _stored() == before
        if name in unseen:
            assert (dry.status_code, real.status_code) == (404, 404), name
            continue
        assert (dry.status_code, real.status_code) == (200, 403), (name, dry.json())
        assert dry.json()["not_allowed"] == [real.json()["detail"]]
    assert api(acme.org_admin).post(URL, BODIES[kind], format="json").status_code == 200
    assert _stored() != before


@pytest.mark.parametrize("scope", Scope)
def test_a_token_of_each_scope_may_ask_and_only_admin_may_change(acme: Acme, scope: Scope) -> None:
    client = _with_token(acme.org_admin, scope)
    before = _stored()

    dry = client.post(URL, {**EVERYTHING, "dry_run": True}, format="json")

    assert (dry.status_code, dry.json()["dry_run"]) == (200, True)
    assert _stored() == before
    told = dry.json()["not_allowed"]
    if scope in {Scope.READ, Scope.SUBMIT}:
        assert told == [f"The token's scope is '{scope}'; this needs 'manage'."]
    elif scope == Scope.MANAGE:
        assert told[1] == "pools spare, main: Your role does not let you change pools."
        assert told[-1] == "The token's scope is 'manage'."
    else:
        assert told == []
    for dry_run in (False, None, 0, "false", "true", 1, "1", [True]):
        answer = client.post(URL, {**EVERYTHING, "dry_run": dry_run}, format="json")
        if scope in {Scope.READ, Scope.SUBMIT}:
            assert answer.status_code == 403, dry_run
        if dry_run is not False:
            continue
        assert (answer.status_code == 200) == (scope == Scope.ADMIN) == (_stored() != before)
        before = _stored()


def test_a_viewer_is_told_all_that_is_not_allowed(acme: Acme, api: Api) -> None:
    body = {
        **EVERYTHING,
        "edits": [*EVERYTHING["edits"], {"team": "speech", "version": 1, "bursting_priority": 3}],
    }
    answer = api(acme.viewer).post(URL, {**body, "dry_run": True}, format="json")
    assert (answer.status_code, answer.json()["not_allowed"]) == (
        200,
        [
            "job classes and tiers: Job classes and priority tiers are changed by organisation admins.",
            f"pools spare, main: {FOR_POOLS}",
            "team speech: Your role does not let you change teams, reservations and limits in NLP.",
            "team vision: To move Vision you need to be an admin of Research, too.",
            "team nlp: The limits and reservations of NLP are changed by an admin above NLP.",
        ],
    )


@pytest.mark.parametrize("order", [1, -1])
def test_reservations_are_compared_over_all_of_it(acme: Acme, api: Api, order: int) -> None:
    """Production (32) goes below Research, which rises from 48 to 80, and back out again, as Research falls."""
    client = api(acme.org_admin)
    for parent, reservation in (("research", 80), ("acme", 48)):
        for team in (acme.research, acme.production):
            team.refresh_from_db()
        body = {"moves": [_move(acme.production, parent)], "edits": [_share(acme.research, reservation)]}
        answer = client.post(URL, dict(list(body.items())[::order]), format="json")
        assert answer.status_code == 200, answer.json()
    acme.production.refresh_from_db()
    assert (acme.production.parent, acme.production.depth) == (acme.root, 1)

    alone = client.post(
        URL, {"moves": [{**_move(acme.production, "research")}], "dry_run": True}, format="json"
    )
    assert alone.status_code == 422
    assert alone.json()["code"] == "envelope-exceeded"
    assert (
        "would be guaranteed 62 GPUs: 14 GPUs too many" in alone.json()["errors"]["teams.production.parent"]
    )
    assert Team.objects.get(slug="production").parent == acme.root


def test_what_somebody_may_only_divide_is_compared_over_all_of_it(acme: Acme, api: Api) -> None:
    """The admin of Research takes from NLP what Vision gets, with Vision below NLP or beside it."""
    client = api(acme.admin)
    body = {"moves": [_move(acme.vision, "nlp")], "edits": [_share(acme.vision, 25), _share(acme.nlp, 40)]}
    assert client.post(URL, body, format="json").status_code == 200
    set_share(acme.research, acme.pool, gpus=0)
    acme.nlp.refresh_from_db()
    raised = client.post(URL, {"edits": [_share(acme.nlp, 41)]}, format="json")
    assert (raised.status_code, raised.json()["code"]) == (422, "beyond-what-was-given")
    assert raised.json()["errors"].keys() == {"teams.nlp.shares.main.reservation"}


def test_a_guarantee_in_a_new_pool_is_a_raised_one(acme: Acme, api: Api) -> None:
    bind(acme.admin, acme.root, Role.OPERATOR)
    edit = {
        "team": "nlp",
        "version": 1,
        "shares": [{"pool": "spare", "version": 0, "reservation": 1}],
    }
    answer = api(acme.admin).post(URL, {**BODIES["new_pools"], "edits": [edit]}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (422, "beyond-what-was-given")
    assert api(acme.org_admin).post(URL, {**BODIES["new_pools"], "edits": [edit]}, format="json").json() == {
        "dry_run": False,
        "nodes": [],
        "warnings": [
            "1 GPU of Spare are guaranteed, and its nodes have 0 GPUs: 1 GPU are promised that are not there.",
            unserved_text(Pool.objects.get(slug="spare")),
        ],
        "not_allowed": [],
    }


def test_moves_are_looked_at_together_whatever_their_order(acme: Acme, api: Api) -> None:
    """Research goes below NLP, which was below it and goes to the root; what lies below each goes with it."""
    deep, old = make_team(acme.nlp, "Deep"), make_team(acme.nlp, "Old")
    set_share(acme.research, acme.pool, gpus=0)
    set_share(acme.nlp, acme.pool, gpus=0)
    moves = [_move(acme.research, "nlp"), _move(acme.nlp, "acme")]
    answer = api(acme.org_admin).post(URL, {"moves": moves}, format="json")
    assert answer.status_code == 200, answer.json()
    acme.nlp.refresh_from_db()
    assert acme.nlp.path == f"{acme.root.path}{acme.nlp.pk.hex}/"
    for team, parent in ((acme.research, acme.nlp), (acme.vision, acme.research), (deep, acme.nlp)):
        team.refresh_from_db()
        assert (team.path, team.depth) == (f"{parent.path}{team.pk.hex}/", parent.depth + 1)
        assert team.version == 2
    old.refresh_from_db()
    assert old.is_within(acme.nlp)
    told = AuditEvent.objects.filter(action="team.moved").values_list("target_name", "before", "after")
    assert {name: (before, after) for name, before, after in told} == {
        "Research": ({"parent": "acme"}, {"parent": "nlp"}),
        "NLP": ({"parent": "research"}, {"parent": "acme"}),
    }


def test_a_circle_is_one_in_the_end(acme: Acme, api: Api) -> None:
    before = _stored()
    answer = api(acme.org_admin).post(
        URL, {"moves": [_move(acme.nlp, "vision"), _move(acme.vision, "nlp")]}, format="json"
    )
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        {"teams.nlp.parent": "NLP cannot be moved under Vision, which is below it."},
    )
    assert _stored() == before


def test_no_team_gets_below_the_last_level(acme: Acme, api: Api) -> None:
    last = acme.nlp
    while last.depth < 31:
        last = make_team(last)
    answer = api(acme.org_admin).post(URL, {"moves": [_move(acme.nlp, "vision")]}, format="json")
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        {"teams.nlp.parent": "The tree would have 33 levels there; 32 is the most."},
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"pools": [{"pool": "main", "version": 7, "order": 9}]}, "pool main: Somebody changed Main since"),
        (
            {"tiers": [{"slug": "high", "version": 7, "priority": 80}]},
            "tier high: Somebody changed the tier High since you read it.",
        ),
        (
            {"moves": [{"team": "nlp", "parent": "vision", "version": 7}]},
            "edited version 7, and it is at 1 now",
        ),
    ],
)
def test_what_was_read_before_somebody_changed_it_is_stale(
    acme: Acme, api: Api, body: dict[str, Any], words: str
) -> None:
    set_rules(acme.root)
    before = _stored()
    body = {**BODIES["new_teams"], **body}
    for dry_run in (True, False):
        answer = api(acme.org_admin).post(URL, {**body, "dry_run": dry_run}, format="json")
        assert (answer.status_code, words in answer.json()["detail"]) == (412, True), answer.json()
    assert _stored() == before


@pytest.mark.parametrize("kind", ["new_pools", "pools", "new_teams", "moves", "edits"])
def test_lists_are_bounded_and_name_each_thing_once(acme: Acme, api: Api, kind: str) -> None:
    [entry] = BODIES[kind][kind]
    client = api(acme.org_admin)
    twice = client.post(URL, {kind: [entry, entry]}, format="json")
    name = entry.get("slug") or entry.get("pool") or entry["team"]
    assert (twice.status_code, twice.json()["detail"]) == (
        422,
        f"{'pools' if 'pool' in kind else 'teams'}.{name}: '{name}' comes 2 times; name it once.",
    )
    many = client.post(URL, {kind: [entry] * 501, "dry_run": True}, format="json")
    assert (many.status_code, many.json()["detail"]) == (
        422,
        f"{kind}: There are 501 entries; at most 500 are taken in one request.",
    )


def test_what_is_wrong_with_the_body_hides_nothing_that_is_wrong_in_its_lists(acme: Acme, api: Api) -> None:
    body = {
        "dry_run": "maybe",
        "frobs": 1,
        "pools": {"main": 3},
        "moves": [{"team": "vision", "parent": "nlp", "version": 1}] * 501,
        "new_teams": [
            {"name": "Lab", "slug": "lab", "parent": "acme"},
            {"name": "Lab", "slug": "lab", "parent": "acme", "maximum": "x"},
        ],
        "edits": [
            {"team": "nlp", "version": 1, "bursting_priority": 30},
            {"team": "vision", "version": 1, "shares": [{"pool": "main", "version": 0, "reservation": "x"}]},
        ],
        "tiers": [{"slug": "high", "version": 1, "priority": -1}],
        "job_classes": 3,
    }
    before = _stored()
    answer = api(acme.org_admin).post(URL, body, format="json")
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {
        "dry_run",
        "frobs",
        "pools",
        "moves",
        "teams.lab",
        "teams.lab.maximum",
        "teams.nlp.bursting_priority",
        "teams.vision.shares.main.reservation",
        "tiers.high.priority",
        "job_classes",
    }
    assert _stored() == before


def test_a_new_team_without_a_slug_is_called_by_its_name(acme: Acme, api: Api) -> None:
    body = {"new_teams": [{"name": "Q", "parent": "nlp"}, {"name": "R", "parent": "q", "maximum": -1}]}
    answer = api(acme.org_admin).post(URL, body, format="json")
    assert answer.json()["detail"].startswith("the new team 'R': A maximum is from 0")
    assert answer.json()["errors"].keys() == {"new_teams[1].maximum"}


def test_a_wrong_name_of_a_priority_class_has_its_place(acme: Acme, api: Api) -> None:
    body = {"tiers": [{"slug": "low", "version": 1, "priority_classes": ["fine", "A b!"]}]}
    answer = api(acme.org_admin).post(URL, body, format="json")
    assert answer.json()["errors"].keys() == {"tiers.low.priority_classes[1]"}


def test_a_hundred_of_each_cost_a_few_queries_each(acme: Acme, api: Api) -> None:
    """Savepoints count too. Reading does not grow with the number: per entry there is only what is written."""
    many = range(100)
    teams = [make_team(acme.nlp, f"Old {index}") for index in many]
    pools = [make_pool(f"Pool {index}", order=index) for index in many]
    body = {
        "dry_run": True,
        "new_pools": [{"name": f"P{index}", "slug": f"p{index}"} for index in many],
        "pools": [{"pool": pool.slug, "version": 1, "paused": True} for pool in pools],
        "new_teams": [{"name": f"T{index}", "slug": f"t{index}", "parent": "vision"} for index in many],
        "moves": [_move(team, "vision") for team in teams],
        "edits": [{"team": team.slug, "version": 1, "bursting_priority": 3} for team in teams],
    }
    with CaptureQueriesContext(connection) as queries:
        answer = api(acme.org_admin).post(URL, body, format="json")
    assert answer.status_code == 200, answer.json()
    writes = {"new_pools": 4, "pools": 3, "new_teams": 2, "moves": 1, "edits": 1}
    assert len(queries) < 100 * sum(writes.values()) + 60


def test_a_viewer_of_the_whole_organisation_may_not_set_its_tiers(acme: Acme, api: Api) -> None:
    answer = api(member(acme.root, Role.VIEWER, "rolf")).post(
        URL, {**BODIES["tiers"], "dry_run": True}, format="json"
    )
    assert answer.json()["not_allowed"] == [
        "job classes and tiers: Job classes and priority tiers are changed by organisation admins."
    ]
