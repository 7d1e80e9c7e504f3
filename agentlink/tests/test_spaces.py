"""Namespaces are bound to teams by the teams' admins, and agents are told which, until they have it."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from agentlink import spaces
from agentlink.models import BoundNamespace, Cluster
from agentlink.protocol import Discovered, DiscoveredJob, NamespaceReport, Namespaces
from agentlink.session import Answer
from agentlink.tests.agents import Hand, admit, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from teams.actors import Actor, Via
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import make_team, make_user, member
from workloads import actions, lifecycle
from workloads.models import Workload

pytestmark = pytest.mark.django_db
ADMIN = Actor.system("test")


def bind(place: Place, namespace: str = "nlp-jobs") -> BoundNamespace:
    return spaces.bind_namespace(by=ADMIN, cluster=place.cluster, team=place.team, namespace=namespace)


def told(answer: Answer) -> list[Namespaces]:
    return [message for message in answer.messages if isinstance(message, Namespaces)]


@pytest.mark.parametrize(
    "name", ["default", "kube-system", "Upper", "a.b", "-a", "a-", "", "a" * 64, "ä", "a_b", "a\n"]
)
def test_a_name_that_cannot_be_is_refused_with_a_sentence(place: Place, name: str) -> None:
    with pytest.raises(Refusal) as refused:
        bind(place, name)
    assert repr(name) in refused.value.fields["namespace"]
    assert not BoundNamespace.objects.exists()


def test_a_namespace_has_one_team_and_a_team_one_namespace(place: Place) -> None:
    bind(place)
    with pytest.raises(Conflict, match="NLP has the namespace 'nlp-jobs' in east already"):
        bind(place, "other")
    with pytest.raises(Conflict, match="bound to a team in east already"):
        spaces.bind_namespace(
            by=ADMIN,
            cluster=place.cluster,
            team=make_team(Team.objects.get(parent=None), "Vision"),
            namespace="nlp-jobs",
        )


@pytest.mark.parametrize("namespace", ["default", "kube-public", ""])
def test_the_database_refuses_kubernetes_own(place: Place, namespace: str) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        BoundNamespace.objects.create(
            cluster=place.cluster,
            team=place.team,
            namespace=namespace,
            owner=place.owner,
            since=timezone.now(),
        )


def test_only_an_admin_of_the_team_binds(place: Place) -> None:
    def try_as(role: Role | None) -> None:
        user = member(place.team, role) if role else make_user("stranger")
        by = Actor.person(user, Via.API)
        spaces.bind_namespace(by=by, cluster=place.cluster, team=place.team, namespace="nlp-jobs")

    for role in (Role.VIEWER, Role.RESEARCHER, Role.LEAD):
        with pytest.raises(NotAllowed):
            try_as(role)
    with pytest.raises(NotVisible):
        try_as(None)
    try_as(Role.ADMIN)
    event = AuditEvent.objects.get(action="namespace.bound")
    assert event.after == {"cluster": "east", "team": "nlp", "namespace": "nlp-jobs"}
    assert event.team_path == place.team.path


def test_a_name_that_somebody_has_is_not_taken_for_the_owner(place: Place) -> None:
    make_user("kubectl@nlp-jobs.east")
    with pytest.raises(Conflict, match="somebody with the user name"):
        bind(place)


def test_it_is_not_removed_while_adopted_work_is_open_or_pods_are_there(place: Place) -> None:
    bound, hand = bind(place), Hand(place.cluster)
    job = DiscoveredJob(uid="u", namespace="nlp-jobs", name="train", gpus=1, image="i:1")
    report = NamespaceReport(namespace="nlp-jobs", ready=True)
    hand.say(Discovered(version=1, namespaces=(report,), jobs=(job,)))
    with pytest.raises(Conflict, match="1 Job is adopted from nlp-jobs and not over"):
        spaces.unbind_namespace(by=ADMIN, bound=bound)
    actions.cancel(by=ADMIN, workload=Workload.objects.get())
    running = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    with pytest.raises(Conflict, match="1 workload of NLP may have pods in nlp-jobs"):
        spaces.unbind_namespace(by=ADMIN, bound=bound)
    running.assignment.wanted, running.assignment.gone = False, True
    running.assignment.save()
    spaces.unbind_namespace(by=ADMIN, bound=bound)
    assert AuditEvent.objects.get(action="namespace.unbound").before["namespace"] == "nlp-jobs"
    spaces.unbind_namespace(by=ADMIN, bound=bound)  # twice does no harm


def test_an_agent_is_told_after_its_hello_and_when_they_change(place: Place) -> None:
    bound = bind(place)
    hand = Hand(place.cluster)
    (greeted,) = told(hand.greeting)
    assert [(each.id, each.namespace, each.team) for each in greeted.bound] == [(bound.pk, "nlp-jobs", "nlp")]
    assert told(hand.session.news()) == []
    spaces.unbind_namespace(by=ADMIN, bound=bound)
    (changed,) = told(hand.session.news())
    assert (changed.version, changed.bound) == (2, ())


def test_what_did_not_arrive_is_told_again_at_the_next_heartbeat(place: Place) -> None:
    hand = Hand(place.cluster)
    assert told(hand.greeting) == []
    bind(place)
    assert [message.version for message in told(hand.session.news())] == [1]
    unheard = hand.heartbeat(1)
    assert [message.version for message in told(hand.say(unheard))] == [1]
    assert told(hand.say(unheard.model_copy(update={"namespaces": 1}))) == []


def test_what_the_agent_tells_of_a_namespace_is_kept(place: Place) -> None:
    bound, hand = bind(place), Hand(place.cluster)
    report = NamespaceReport(
        namespace="nlp-jobs",
        ready=False,
        problem="It is there.",
        foreign_jobs=2,
        foreign_gpus=9,
        foreign_pods=1,
        foreign_pod_names=("notebook",),
    )
    hand.say(Discovered(version=1, namespaces=(report,)))
    (shown,) = spaces.shown(place.cluster, member(place.team, Role.VIEWER))
    assert (shown.pk, shown.ready, shown.problem) == (bound.pk, False, "It is there.")
    assert (shown.foreign_jobs, shown.foreign_gpus) == (2, 9)
    assert (shown.foreign_pods, shown.foreign_pods_named) == (1, ["notebook"])
    assert spaces.shown(place.cluster, make_user("stranger")) == []


def refused_by(place: Place, cluster: Cluster, index: int, code: str) -> Workload:
    """Return a workload of the team that the cluster refused for this reason."""
    device = devices_of(cluster, cluster.nodes.order_by("name")[0].name)[index]
    attempt = admit(place.team, place.owner, place.pool, cluster, [device])
    with transaction.atomic():
        lifecycle.refused(attempt.pk, at=timezone.now(), code=code, message="It was refused.")
    return Workload.objects.get(pk=attempt.workload_id)


def test_what_was_refused_for_its_namespace_is_tried_again_when_that_is_kept(place: Place) -> None:
    bound = bind(place)
    hand = Hand(place.cluster)
    problem = NamespaceReport(namespace="nlp-jobs", ready=False, problem="It has no Pod Security level.")
    hand.say(Discovered(version=1, namespaces=(problem,)))
    west = make_cluster("west")
    make_node(west, "w1", gpus=1, pool=place.pool)
    codes = ("namespace-not-kept", "namespace-missing", "pod-security", "quota-too-small")
    *its, of_quota = (refused_by(place, place.cluster, index, code) for index, code in enumerate(codes))
    elsewhere = refused_by(place, west, 0, "namespace-not-kept")
    kept = NamespaceReport(namespace="nlp-jobs", ready=True, security="baseline")
    hand.say(Discovered(version=1, namespaces=(kept,)))
    for row in its:
        row.refresh_from_db()
        assert (row.backoff_until, row.reason) == (None, {})
        last = row.events.latest("sequence").message
        assert last == "Tried again: The namespace nlp-jobs is kept by the agent again."
    for row in (of_quota, elsewhere):
        row.refresh_from_db()
        assert row.backoff_until is not None
        assert row.events.latest("sequence").message == "It was refused."
    bound.refresh_from_db()
    assert bound.security == "baseline"


def test_what_pod_security_refused_is_tried_again_under_another_level(place: Place) -> None:
    bind(place)
    hand = Hand(place.cluster)
    report = NamespaceReport(namespace="nlp-jobs", ready=True, security="restricted")
    hand.say(Discovered(version=1, namespaces=(report,)))
    by_level, by_limits = (
        refused_by(place, place.cluster, index, code)
        for index, code in enumerate(("pod-security", "limit-range"))
    )
    hand.say(Discovered(version=1, namespaces=(report,)))
    by_level.refresh_from_db()
    assert by_level.backoff_until is not None
    hand.say(Discovered(version=1, namespaces=(report.model_copy(update={"security": "baseline"}),)))
    by_level.refresh_from_db()
    by_limits.refresh_from_db()
    assert (by_level.reason, by_limits.reason["code"]) == ({}, "limit-range")
    last = by_level.events.latest("sequence").message
    assert last == "Tried again: The Pod Security level of the namespace nlp-jobs is now baseline."
