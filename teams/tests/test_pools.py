"""create_pool and edit_pool."""

import pytest

from chamber import live
from chamber.errors import NotAllowed, Refusal, StaleVersion
from teams.actions import PoolChanges, create_pool, edit_pool
from teams.models import AuditEvent, Pool, QueueingPolicy, Role
from teams.tests.conftest import Acme
from teams.tests.factories import actor, bind, make_pool, make_user


def test_an_operator_makes_a_pool(acme: Acme) -> None:
    bind(acme.stranger, acme.root, Role.OPERATOR)
    values: PoolChanges = {"name": "A100", "slug": "a100", "node_selector": {"gpu": "a100"}, "order": 1}
    pool = create_pool(by=actor(acme.stranger), values=values)
    assert pool.selects({"gpu": "a100", "zone": "a"})
    assert not pool.selects({"gpu": "h100"})
    assert AuditEvent.objects.get().action == "pool.created"


def test_changes_of_the_policy_are_typed_audited_and_announced(
    acme: Acme, django_capture_on_commit_callbacks: pytest.FixtureRequest
) -> None:
    changes: PoolChanges = {"policy": {"queueing": "strict-fifo", "max_preemptions": 3}}
    known = live.versions("pools", "queue:main")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        pool = edit_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes=changes)
    assert (pool.rules.queueing, pool.rules.max_preemptions) == (QueueingPolicy.STRICT_FIFO, 3)
    event = AuditEvent.objects.get()
    assert event.before == {"policy.queueing": "backfill", "policy.max_preemptions": None}
    assert live.flush(60)
    assert all(now > before for now, before in zip(live.versions("pools", "queue:main"), known, strict=True))


def test_the_same_policy_is_no_change(acme: Acme) -> None:
    pool = edit_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes={"policy": {}})
    assert pool.version == 1
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        (
            {"policy": {"queueing": "lifo"}},
            "policy.queueing",
            "'lifo' is not allowed for queueing; allowed are 'strict-fifo'",
        ),
        ({"policy": {"queuing": "backfill"}}, "policy.queuing", "A policy has no 'queuing'"),
        (
            {"policy": {"min_runtime_seconds": -1}},
            "policy.min_runtime_seconds",
            "min_runtime_seconds is -1; at least 0 is allowed.",
        ),
        (
            {"policy": {"peak_hours": ["mon 8-18"], "peak_max_gpus": 8}},
            "policy.peak_hours",
            "'mon 8-18' are no hours: write days and times such as mon-fri 08:00-18:00",
        ),
        (
            {"policy": {"peak_hours": ["mon-sun 00:00-24:00"], "peak_max_gpus": 8}},
            "policy.peak_hours",
            "leave a part of the week",
        ),
        (
            {"policy": {"peak_hours": ["mon 08:00-18:00"], "peak_zone": "Mars", "peak_max_gpus": 8}},
            "policy.peak_zone",
            "'Mars' is no time zone",
        ),
        (
            {"policy": {"peak_hours": ["mon 08:00-18:00"], "peak_max_gpus": 0.0004}},
            "policy.peak_max_gpus",
            "0.0004 GPUs cannot be: write a number in steps of 0.001.",
        ),
        (
            {"policy": {"peak_hours": ["mon 08:00-18:00"]}},
            "policy.peak_classes",
            "keep nothing out without a number of GPUs or a job class",
        ),
        (
            {"policy": {"peak_hours": ["mon 08:00-18:00"], "peak_classes": ["trainin"]}},
            "policy.peak_classes",
            "There is no job class 'trainin'. Did you mean 'training'?",
        ),
        ({"name": ""}, "name", "1 to 100 characters"),
        ({"slug": "other"}, "slug", "taken by another pool"),
        ({"slug": "Main Pool"}, "slug", "small letters"),
        ({"order": -1}, "order", "not -1"),
        ({"node_selector": {"gpu": ""}}, "node_selector", "each with a name and a value"),
        ({"topology": ["rack", "rack"]}, "topology", "different label names"),
        ({"topology": ["rack", "node"]}, "topology", "always the innermost"),
    ],
)
def test_what_cannot_be_is_refused_beside_its_field(
    acme: Acme, changes: PoolChanges, field: str, told: str
) -> None:
    make_pool("Other")
    with pytest.raises(Refusal) as refusal:
        edit_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes=changes)
    assert list(refusal.value.fields) == [field]
    assert told in refusal.value.message


def test_a_pool_needs_a_name_and_a_short_one(acme: Acme) -> None:
    with pytest.raises(Refusal) as refusal:
        create_pool(by=actor(acme.org_admin), values={})
    assert set(refusal.value.fields) == {"name", "slug"}


def test_pause(acme: Acme) -> None:
    assert edit_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes={"paused": True}).paused


def test_the_second_of_two_is_told(acme: Acme) -> None:
    edit_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes={"paused": True})
    with pytest.raises(StaleVersion):
        edit_pool(by=actor(acme.org_admin), pool=acme.pool, version=1, changes={"order": 3})
    assert Pool.objects.get().order == 0


@pytest.mark.parametrize("who", ["admin", "lead", "viewer"])
def test_others_see_pools_and_change_none(acme: Acme, who: str) -> None:
    user = getattr(acme, who)
    bind(user, acme.root, Role.VIEWER)
    assert Pool.objects.visible_to(user).exists()
    with pytest.raises(NotAllowed):
        edit_pool(by=actor(user), pool=acme.pool, version=1, changes={"paused": True})


def test_who_has_no_role_sees_none(acme: Acme) -> None:
    assert not Pool.objects.visible_to(acme.stranger).exists()


@pytest.mark.django_db
def test_without_an_organisation_there_are_no_pools() -> None:
    with pytest.raises(Refusal, match="no organisation yet"):
        create_pool(by=actor(make_user()), values={"name": "Main", "slug": "main"})


@pytest.mark.django_db
def test_a_new_pool_picks_its_nodes_last_unless_it_says_otherwise(acme: Acme) -> None:
    by = actor(acme.org_admin)
    first = create_pool(by=by, values={"name": "A", "slug": "a", "order": 4})
    late = create_pool(by=by, values={"name": "B", "slug": "b"})
    early = create_pool(by=by, values={"name": "C", "slug": "c", "order": 0})
    assert first.order < late.order
    assert early.order == 0
