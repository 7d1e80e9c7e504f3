"""Every act on somebody else's workload is a row of the audit trail, and on one's own none; the acts are those that
there are, by the URLconf and by the actions themselves.
"""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agentlink.models import AdoptedJob
from agentlink.tests.agents import Hand
from agentlink.tests.conftest import Place, place
from agentlink.tests.test_adoption import bound, discover, job
from chamber.errors import Conflict, NotAllowed
from chamber.models import Scope, User
from chamber.people import actions as people
from chamber.people.leaving import Leaving
from chamber.services.actions import create_service, make_token
from chamber.tokens import TokenRequest, create_token
from teams.actors import Actor
from teams.audit import ACTIONS
from teams.models import AuditEvent, Role
from teams.tests.factories import actor, member
from tests.test_role_walk import ROWS, URLS, World, world
from workloads import actions
from workloads.auditing import DONE
from workloads.models import Workload
from workloads.tests.factories import make_workload

__all__ = ["bound", "place", "world"]

AGENTS = {"page": "Mozilla/5.0", "api": "curl/8", "cli": "chamber-cli/1"}
ADDRESS = "192.0.2.77"
CHOSEN = {"release": "held-1", "requeue": "ended-1"}
"""Workloads that their state allows it of, but for `train-1`."""


def is_act(method: str, name: str) -> bool:
    """Return whether a request is about workloads that are there, and no mere look at them."""
    about_one = "workload" in name and "array" not in name and "slug" in URLS[name].pattern.converters
    return method != "GET" and (about_one or name == "workloads:bulk")


def acts_of(name: str) -> tuple[str, ...]:
    last = name.rpartition(":")[2].rpartition("-")[2]
    return actions.BULK_ACTS if last == "bulk" else (last,)


WALK = [
    (who, method, name, act, door)
    for method, name in ROWS
    if is_act(method, name)
    for act in acts_of(name)
    for door in (("api", "cli") if name.startswith("api-") else ("page",))
    for who in ("lead", "owner", *(["service account"] if door != "page" else []))
]
"""What the URLconf has: that the role walk's table has all of it, a test beside it says."""


def rows() -> list[tuple[Any, ...]]:
    columns = ("action", "target_name", "team_path", "actor", "via", "address", "agent", "after")
    return list(AuditEvent.objects.filter(action__startswith="workload.").values_list(*columns))


def through(door: str, user: User) -> Client:
    """Return how somebody asks through a door."""
    headers = {"User-Agent": AGENTS[door]}
    if door != "page":
        headers["Authorization"] = f"Bearer {create_token(user=user, name='x', scope=Scope.ADMIN, days=1)[1]}"
    client = Client(headers=headers, REMOTE_ADDR=ADDRESS)
    if door == "page":
        client.force_login(user)
    return client


@pytest.mark.parametrize("row", WALK, ids=[" ".join(row) for row in WALK])
def test_each_address_that_acts_on_a_workload_leaves_a_row_where_it_is_anothers(
    world: World, row: tuple[str, str, str, str, str]
) -> None:
    who, method, name, act, door = row
    if who == "service account":
        user, client = service_account(world)
    else:
        user, client = world.users[who], through(door, world.users[who])
    slug = CHOSEN.get(act, "train-1")
    content = {"act": act, "id": [slug]} if name == "workloads:bulk" else {}
    headers = {"User-Agent": AGENTS[door]}
    answer = getattr(client, method.lower())(world.address(name), content, headers=headers)
    assert answer.status_code in {200, 302}
    told = (DONE[act], slug, world.nlp.path, user.username, door, ADDRESS, AGENTS[door], {"owner": "owner"})
    assert rows() == ([] if who == "owner" else [told])


def service_account(world: World) -> tuple[User, Client]:
    """Return one that leads the workloads' team, and how it asks."""
    by = Actor.system("test")
    account = create_service(by=by, name="nightly", team=world.nlp, role=Role.LEAD)
    _, secret = make_token(by=by, account=account, wanted=TokenRequest("runner", Scope.ADMIN))
    return account.user, Client(headers={"Authorization": f"Bearer {secret}"}, REMOTE_ADDR=ADDRESS)


def test_the_walk_has_pages_and_the_api() -> None:
    assert {row[3:] for row in WALK} == {(act, door) for act in actions.BULK_ACTS for door in AGENTS}
    assert ACTIONS.issuperset(DONE.values())


Act = Callable[[Actor, list[Workload]], object]
CALLS: dict[str, Act] = {
    **{
        name: lambda by, works, name=name: [  # type: ignore[misc]
            getattr(actions, name)(by=by, workload=work) for work in works
        ]
        for name in ("cancel", "hold", "release", "requeue")
    },
    "act_on_many": lambda by, works: actions.act_on_many(by=by, act="cancel", workloads=works),
    "cancel_all": lambda by, works: actions.cancel_all(by=by, ids=[work.pk for work in works]),
    "hand_over": lambda by, works: actions.hand_over(
        by=by, ids=[work.pk for work in works], to=User.objects.get(username="mate")
    ),
}
STATES: dict[str, dict[str, Any]] = {
    "release": {"held": True, "reason_code": "held"},
    "requeue": {"status": "cancelled", "finished_at": "2030-01-31T12:00:00Z", "reason_code": "cancelled"},
}


def test_each_action_on_workloads_is_tried_here() -> None:
    takes_an_actor = {
        name
        for name, each in inspect.getmembers(actions, inspect.isfunction)
        if each.__module__ == actions.__name__
        and "by" in inspect.signature(each).parameters
        and not name.startswith(("_", "may_"))
    }
    assert takes_an_actor == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_each_action_leaves_a_row_for_each_workload_of_another(world: World, name: str) -> None:
    lead, owner = world.users["lead"], world.users["owner"]
    made = [make_workload(world.nlp, who, **STATES.get(name, {})) for who in (owner, lead, owner)]
    CALLS[name](actor(lead), made)
    assert sorted(row[1] for row in rows()) == sorted(made[place].slug for place in (0, 2))
    CALLS[name](Actor.system("test"), [make_workload(world.nlp, owner, **STATES.get(name, {}))])
    assert len(rows()) == 2


def test_what_was_refused_or_too_late_leaves_none(world: World) -> None:
    ended = Workload.objects.get(slug="ended-1")
    lead = actor(world.users["lead"])
    assert actions.act_on_many(by=lead, act="cancel", workloads=[ended]) == set()
    with pytest.raises(Conflict):
        actions.cancel(by=lead, workload=ended)
    with pytest.raises(NotAllowed):
        actions.cancel(by=actor(world.users["mate"]), workload=Workload.objects.get(slug="train-1"))
    assert rows() == []


def test_whom_a_job_names_acts_on_their_own_and_others_do_not(place: Place, bound: Any) -> None:
    hand = Hand(place.cluster)
    discover(hand, job("u1", who="ada"), job("u2", name="other", who="ada"))
    own, other = (AdoptedJob.objects.get(uid=uid).workload for uid in ("u1", "u2"))
    actions.hold(by=actor(place.owner), workload=own)
    assert rows() == []
    lead = member(place.team, Role.LEAD, "lena")
    actions.act_on_many(by=actor(lead), act="hold", workloads=[other])
    assert [(row[0], row[1], row[3]) for row in rows()] == [("workload.held", other.slug, "lena")]


@pytest.mark.parametrize("becomes", [Leaving.CANCEL, Leaving.HAND_OVER])
def test_what_becomes_of_the_workloads_of_who_is_put_out_is_told_of_each(
    world: World, becomes: Leaving
) -> None:
    heir = world.users["mate"] if becomes is Leaving.HAND_OVER else None
    admin = actor(world.users["org-admin"])
    people.disable(by=admin, user=world.users["owner"], workloads=becomes, heir=heir)
    before = list(AuditEvent.objects.filter(action__startswith="workload.").values_list("before", flat=True))
    action = "workload.handed-over" if heir else "workload.cancelled"
    theirs = ["held-1", "sweep-1-0", "sweep-1-1", "train-1"]
    assert sorted((row[0], row[1]) for row in rows()) == [(action, slug) for slug in theirs]
    assert {row[-1]["owner"] for row in rows()} == {"mate" if heir else "owner"}
    assert before == [{"owner": "owner"} if heir else {}] * len(theirs)
