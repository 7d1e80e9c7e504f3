"""Where namespaces are bound to teams, pods of two of them share no device; pods of one do."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink import spaces
from agentlink.models import BoundNamespace, Device, Hold, Node, Placement
from scheduling.cycle.cycle import run_cycle
from scheduling.explain import workload as explaining
from scheduling.reading import snapshot
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from teams.actors import Actor, Via
from teams.models import Team
from workloads import actions
from workloads.models import Attempt, Status, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tests.factories import make_workload

ADMIN = Actor.system("test")


@pytest.fixture
def one_node(acme: Acme) -> Acme:
    """Acme with two GPUs, both on one node."""
    keep = Node.objects.order_by("name").first()
    assert keep is not None
    Node.objects.exclude(pk=keep.pk).delete()
    Device.objects.filter(index__gte=2).delete()
    return acme


def bind(acme: Acme, team: Team) -> BoundNamespace:
    return spaces.bind_namespace(by=ADMIN, cluster=acme.cluster, team=team, namespace=f"{team.slug}-jobs")


def part(acme: Acme, team: Team, milli: int = 250, **fields: object) -> Workload:
    owner = acme.owner if team == acme.research else acme.outsider
    return make_workload(team, owner, gpu_milli=milli, **fields)


def device_of(workload: Workload) -> int:
    """Return the index of the only device that a workload has."""
    return Placement.objects.get(attempt__workload=workload, attempt__ended_at=None).device.index


def cycles() -> None:
    """Run cycles until nothing is left to do."""
    for _ in range(3):
        run_cycle()


def test_without_a_bound_namespace_all_share(one_node: Acme) -> None:
    workloads = [part(one_node, team) for team in (one_node.research, one_node.production)]
    run_cycle()
    assert [device_of(each) for each in workloads] == [0, 0]


@pytest.mark.parametrize("both", [True, False])
def test_parts_of_two_namespaces_that_come_together_get_devices_of_their_own(
    one_node: Acme, both: bool
) -> None:
    """A team that has none shares with others that have none: in the agent's own namespace."""
    bind(one_node, one_node.research)
    if both:
        bind(one_node, one_node.production)
    teams = (one_node.research, one_node.production, one_node.research, one_node.production)
    workloads = [part(one_node, team) for team in teams]
    cycles()
    first, second, third, fourth = (device_of(each) for each in workloads)
    assert (first, second) == (third, fourth)
    assert first != second


def test_a_part_comes_to_no_device_that_another_namespace_shares_however_much_is_free(one_node: Acme) -> None:
    bind(one_node, one_node.research)
    bind(one_node, one_node.production)
    mine = part(one_node, one_node.research)
    run_cycle()
    whole = make_workload(one_node.production, one_node.outsider, gpu_milli=1000)
    cycles()
    run_pods([mine, whole])
    late = part(one_node, one_node.production, fail_if_impossible=True)
    cycles()
    late.refresh_from_db()
    assert late.status == Status.PENDING
    reason = explaining.explain(late, one_node.outsider)
    assert reason is not None
    assert reason.code == "waiting-for-gpus"  # there are GPUs that are free, and none that it may use
    fellow = part(one_node, one_node.research)
    cycles()
    assert device_of(fellow) == device_of(mine)
    for each in (mine, fellow):
        actions.cancel(by=ADMIN, workload=each)
    Placement.objects.filter(attempt__workload__in=[mine, fellow]).update(hold=Hold.RELEASED)
    Attempt.objects.filter(workload__in=[mine, fellow]).update(released_at=timezone.now())
    cycles()
    assert device_of(late) == 0


def test_whole_gpus_are_not_concerned(one_node: Acme) -> None:
    bind(one_node, one_node.research)
    mine, whole = part(one_node, one_node.research), make_workload(one_node.production, one_node.outsider)
    cycles()
    assert device_of(mine) != device_of(whole)


def test_what_was_placed_before_its_team_was_bound_shares_with_those_that_have_none(one_node: Acme) -> None:
    bind(one_node, one_node.production)
    old = part(one_node, one_node.research)
    run_cycle()
    run_pods([old])
    bound = bind(one_node, one_node.research)
    BoundNamespace.objects.filter(pk=bound.pk).update(since=timezone.now() + timedelta(seconds=1))
    new = part(one_node, one_node.research)
    cycles()
    assert device_of(new) != device_of(old)


def test_the_picture_takes_as_many_queries_for_one_part_as_for_ten(one_node: Acme) -> None:
    bind(one_node, one_node.research)
    snapshot.take(timezone.now())
    counts = []
    for _ in range(2):
        part(one_node, one_node.research)
        snapshot.forget()
        with CaptureQueriesContext(connection) as queries:
            snapshot.take(timezone.now())
        counts.append(len(queries))
        for _ in range(9):
            part(one_node, one_node.research)
    assert counts[0] == counts[1]


def test_serving_and_reserved_work_lies_on_devices_of_its_own_whatever_else_is_placed(one_node: Acme) -> None:
    """Two GPUs: the elastic halves share one, and the reserved half, whole by now, has the other for itself."""

    def ask(name: str, **fields: object) -> Workload:
        body = {"name": name, "team": one_node.research.slug, "image": "train:1", "gpus": 0.5, **fields}
        return submit(by=Actor.person(one_node.owner, Via.API), requests=[SubmissionRequest.parse(body)])[0]

    first = ask("first")
    run_cycle()
    reserved, second = ask("reserved", priority=100), ask("second")
    cycles()
    serving = ask("serving", job_class="serving", priority=25)
    cycles()
    assert device_of(first) == device_of(second) != device_of(reserved)
    serving.refresh_from_db()
    assert serving.status == Status.PENDING  # no GPU is empty: it goes beside nobody
    held = Placement.objects.filter(attempt__workload=reserved).values_list("share_milli", flat=True)
    assert list(held) == [1000]
