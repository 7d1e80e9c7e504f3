"""Deleting teams and pools: only where nothing hangs on them, by those who may, recorded."""

import pytest
from django.test import Client
from django.utils import timezone

from agentlink.spaces import bind_namespace
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Conflict, NotAllowed, Refusal
from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent, Binding, Pool, Role, Share, Team
from teams.tests.factories import actor, bind, make_org, make_pool, make_team, make_user, member, set_share
from workloads.models import Status
from workloads.tests.factories import admit, finish, make_workload

pytestmark = pytest.mark.django_db
ADMIN = Actor.system("test")


def team_refusal(team: Team) -> str:
    with pytest.raises(Refusal) as refused:
        actions.delete_team(by=ADMIN, team=team)
    assert Team.objects.filter(pk=team.pk).exists()
    return refused.value.message


def pool_refusal(pool: Pool) -> str:
    with pytest.raises(Conflict) as refused:
        actions.delete_pool(by=ADMIN, pool=pool)
    assert Pool.objects.filter(pk=pool.pk).exists()
    return refused.value.message


# Teams


@pytest.fixture
def nlp(db: None) -> Team:
    return make_team(make_org("Acme"), "NLP")


@pytest.fixture
def idle(nlp: Team) -> Team:
    return make_team(nlp, "Idle")


def test_an_empty_team_goes_with_roles_and_shares_and_the_trail_keeps_it(nlp: Team, idle: Team) -> None:
    bind(make_user("ada"), idle, Role.RESEARCHER)
    set_share(idle, make_pool("Spare"), gpus=0)
    actions.delete_team(by=ADMIN, team=idle)
    assert not Team.objects.filter(pk=idle.pk).exists()
    assert not Binding.objects.filter(team_id=idle.pk).exists()
    assert not Share.objects.filter(team_id=idle.pk).exists()
    event = AuditEvent.objects.get(action="team.deleted")
    assert (event.target_name, event.team_path, event.before["members"]) == ("Idle", idle.path, 1)


def test_not_the_organisation(nlp: Team) -> None:
    assert team_refusal(Team.objects.get(depth=0)).endswith("is the organisation; it cannot be deleted.")


def test_not_with_teams_below(nlp: Team, idle: Team) -> None:
    make_team(idle, "Below")
    assert team_refusal(idle) == "1 team lies below Idle. Move or delete it first."


def test_not_with_workloads_open_or_over(nlp: Team, idle: Team) -> None:
    owner = member(idle, Role.RESEARCHER, "ada")
    workload = make_workload(idle, owner)
    assert team_refusal(idle).startswith("Idle has 1 workload waiting or running, and a team with history")
    ended = {"status": Status.CANCELLED, "finished_at": timezone.now(), "reason_code": "cancelled"}
    type(workload).objects.filter(pk=workload.pk).update(**ended)
    assert team_refusal(idle) == (
        "Idle has 1 workload in its history, and a team with history is not deleted. Archive it instead."
    )


def test_not_with_a_namespace(nlp: Team, idle: Team) -> None:
    bind_namespace(by=ADMIN, cluster=make_cluster(), team=idle, namespace="idle-jobs")
    assert team_refusal(idle).startswith("1 namespace is bound to Idle.")


def test_an_archived_team_that_never_ran_anything_may_go(nlp: Team, idle: Team) -> None:
    actions.archive_team(by=ADMIN, team=idle)
    actions.delete_team(by=ADMIN, team=idle)
    assert not Team.objects.filter(pk=idle.pk).exists()


def test_only_an_admin_above_deletes_it(nlp: Team, idle: Team) -> None:
    own = member(idle, Role.ADMIN, "own-admin")
    with pytest.raises(NotAllowed):
        actions.delete_team(by=actor(own), team=idle)
    above = member(nlp, Role.ADMIN, "above")
    actions.delete_team(by=actor(above), team=idle)


def test_on_the_page_the_short_name_is_typed(nlp: Team, idle: Team, client: Client) -> None:
    client.force_login(member(nlp, Role.ADMIN, "above"))
    assert "Delete this team" in client.get("/teams/idle/").content.decode()
    client.post("/teams/idle/delete/", {"confirm": "Idle"})
    assert Team.objects.filter(pk=idle.pk).exists()
    answer = client.post("/teams/idle/delete/", {"confirm": "idle"}, follow=True)
    assert "The team Idle is deleted." in answer.content.decode()


# Pools


def test_a_pool_without_nodes_and_history_goes_with_the_teams_limits(nlp: Team) -> None:
    pool = make_pool("Spare")
    set_share(nlp, pool, gpus=0)
    actions.delete_pool(by=ADMIN, pool=pool)
    assert not Pool.objects.filter(pk=pool.pk).exists()
    assert not Share.objects.filter(pool_id=pool.pk).exists()
    assert AuditEvent.objects.get(action="pool.deleted").before["slug"] == "spare"


def test_not_a_pool_with_nodes(nlp: Team) -> None:
    pool = make_pool("Spare")
    node = make_node(make_cluster(), "n1", pool=pool)
    assert pool_refusal(pool).startswith("Spare has 1 node. Have another pool's selector pick it first")
    node.gone_at = timezone.now()
    node.save()
    actions.delete_pool(by=ADMIN, pool=pool)


def test_not_a_pool_with_guarantees(nlp: Team) -> None:
    pool = make_pool("Spare")
    set_share(nlp, pool, gpus=4)
    assert pool_refusal(pool) == f"{nlp.name} has a guarantee in Spare. Take it back first."


def test_not_a_pool_that_a_waiting_workload_names(nlp: Team, idle: Team) -> None:
    pool, owner = make_pool("Spare"), member(idle, Role.RESEARCHER, "ada")
    make_workload(idle, owner)
    make_workload(idle, owner, pool_choice=[str(pool.pk)])
    assert pool_refusal(pool) == "1 workload waits for or runs in Spare. Cancel it or let it end first."


def test_not_a_pool_in_which_somebody_runs_or_ran(nlp: Team, idle: Team) -> None:
    pool = make_pool("Spare")
    workload = make_workload(idle, member(idle, Role.RESEARCHER, "ada"))
    attempt = admit(workload, pool)
    assert pool_refusal(pool) == "1 workload waits for or runs in Spare. Cancel it or let it end first."
    finish(attempt, exit_code=0)
    assert pool_refusal(pool).startswith("The history has 1 run in Spare;")


def test_only_who_may_change_pools_deletes_one(nlp: Team) -> None:
    with pytest.raises(NotAllowed):
        actions.delete_pool(by=actor(member(nlp, Role.ADMIN, "above")), pool=make_pool("Spare"))
