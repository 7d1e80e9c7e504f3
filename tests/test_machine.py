"""Any order of acts, cycles and reports: after each step the tables hold what they must.

Hypothesis chooses the steps: people submit, cancel, hold and edit the tree, the scheduler decides (also on a picture
that is old by then), and a simulated agent of each cluster reports in order, twice, or late. Each example is a
transaction that is rolled back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentlink import actions as cluster_actions
from agentlink import assignments, reports
from agentlink.models import Assignment, Cluster, Node
from agentlink.protocol import Observed, PodReport, PodState, Report, ReportedPhase
from agentlink.tests.agents import report
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Refusal
from chamber.models import User
from scheduling.cycle import decide, usage
from scheduling.cycle.apply import LostTurn, apply
from scheduling.explain import last_cycle
from scheduling.reading.snapshot import take
from teams import actions as team_actions
from teams.actors import Actor
from teams.models import Pool, Role, Share, Team
from teams.tests.factories import actor, make_org, make_pool, make_team, member, set_share
from tests.truths import broken
from workloads import actions, known
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tasks import enforce_time_limits

STEPS = 30
EXAMPLES = 10
SYSTEM = Actor.system("test")
ANY = st.integers(min_value=0, max_value=1000)
"""Which of what there is: the rest of a division by how many there are."""


@dataclass
class Acme:
    """acme ── research r=4 ── nlp r=2, vision; production r=2. Pool main: 6 GPUs in two clusters."""

    teams: list[Team]
    pool: Pool
    clusters: list[Cluster]
    user: User


@pytest.fixture
def acme(db: None) -> Acme:
    root = make_org("Acme")
    research, production = make_team(root, "Research"), make_team(root, "Production")
    teams = [research, make_team(research, "NLP"), make_team(research, "Vision"), production]
    pool = make_pool("Main")
    for team, gpus in zip(teams, (4, 2, 0, 2), strict=True):
        set_share(team, pool, gpus=gpus)
    clusters = [make_cluster(name, connection=uuid4()) for name in ("east", "west")]
    for cluster, nodes in zip(clusters, (1, 2), strict=True):
        for number in range(nodes):
            make_node(cluster, f"{cluster.name}-{number}", gpus=2, pool=pool)
    return Acme(teams, pool, clusters, member(root, Role.ORG_ADMIN, "olga"))


@dataclass
class Agent:
    """What a cluster's agent has said so far, so that it can say it again."""

    cluster: Cluster
    said: list[Report] = field(default_factory=list)

    def say(self, told: Report) -> None:
        self.said.append(told)
        self.repeat(told)

    def repeat(self, told: Report) -> None:
        self.cluster.refresh_from_db()
        outcome = reports.take(self.cluster, Observed(reports=(told,)), connection=self.cluster.connection)
        assert not outcome.errors


AFTER = {
    None: ReportedPhase.STARTING,
    ReportedPhase.STARTING: ReportedPhase.RUNNING,
    ReportedPhase.RUNNING: ReportedPhase.SUCCEEDED,
}


class Machine(RuleBasedStateMachine):
    """The acts. What is refused is refused: the invariant looks at what that leaves."""

    acme: Acme

    def __init__(self) -> None:
        super().__init__()
        for part in (decide, last_cycle, usage, known):
            part.forget()
        self._example = transaction.atomic()
        self._example.__enter__()
        self.by = actor(self.acme.user)
        self.agents = [Agent(cluster) for cluster in self.acme.clusters]
        self.phases: dict[UUID, ReportedPhase] = {}
        self.keys: dict[str, list[UUID]] = {}
        self.decided: decide.Decided | None = None
        for team in self.acme.teams:
            for priority in (50, 100):
                request = {"name": "first", "team": team.slug, "image": "train:1", "priority": priority}
                submit(by=self.by, requests=[SubmissionRequest.parse(request)])

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self._example.__exit__(None, None, None)

    # People and their workloads

    @rule(
        team=ANY,
        priority=st.sampled_from([25, 50, 75, 100, 150]),
        pods=st.integers(1, 4),
        min_pods=st.integers(1, 4),
        gpus=st.sampled_from([0.25, 0.5, 1, 1, 2]),
        on_preemption=st.sampled_from(["requeue", "stop"]),
        max_retries=st.integers(0, 2),
        time_limit_seconds=st.sampled_from([None, 1]),
        key=st.sampled_from([None, None, "a", "b"]),
    )
    def submit(self, *, team: int, pods: int, min_pods: int, key: str | None, **asked: Any) -> None:
        words = {**asked, "pods": pods, "min_pods": min(pods, min_pods)}
        request = SubmissionRequest.parse(
            {**words, "name": "work", "team": self._team(team).slug, "image": "train:1"}
        )
        before = Workload.objects.count()

        def act() -> None:
            made = [row.pk for row in submit(by=self.by, requests=[request], key=key, body_sha256="x")]
            if key is None or key not in self.keys:
                assert Workload.objects.count() == before + 1
            else:
                assert (made, Workload.objects.count()) == (self.keys[key], before)
            if key is not None:
                self.keys[key] = made

        self._try(act)

    @precondition(lambda _: Workload.objects.exists())
    @rule(which=ANY, act=st.sampled_from(["cancel", "hold", "release", "requeue"]))
    def act(self, which: int, act: str) -> None:
        workload = self._workload(which)
        self._try(lambda: getattr(actions, act)(by=self.by, workload=workload))

    @rule(act=st.sampled_from(actions.BULK_ACTS), every=st.integers(2, 4))
    def act_on_many(self, act: str, every: int) -> None:
        some = list(Workload.objects.select_related("team").order_by("pk"))[::every]
        self._try(lambda: actions.act_on_many(by=self.by, act=act, workloads=some))

    # The tree

    @rule(
        act=st.sampled_from(["archive", "restore", "move", "share", "limits"]),
        team=ANY,
        parent=ANY,
        gpus=st.integers(0, 5),
        percent=st.sampled_from([None, 0, 100]),
    )
    def edit_the_tree(self, act: str, team: int, parent: int, gpus: int, percent: int | None) -> None:
        edited, pool = self._team(team), self.acme.pool
        if act == "archive":
            self._try(lambda: team_actions.archive_team(by=SYSTEM, team=edited))
        elif act == "restore":
            self._try(lambda: team_actions.unarchive_team(by=SYSTEM, team=edited))
        elif act == "move":
            self._try(lambda: team_actions.move_team(by=SYSTEM, team=edited, parent=self._team(parent)))
        elif act == "share":
            version = Share.objects.get(team=edited, pool=pool).version
            given: Any = {"by": SYSTEM, "team": edited, "pool": pool, "version": version}
            self._try(lambda: team_actions.set_share(**given, changes={"reservation_milli": gpus * 1000}))
        else:
            changes: Any = {"maximum_milli": gpus * 1000 or None, "burst_limit_percent": percent}
            given = {"by": SYSTEM, "team": edited, "version": edited.version}
            self._try(lambda: team_actions.edit_team(**given, changes=changes))

    # The scheduler

    @rule()
    def cycle(self) -> None:
        self._apply(decide.decide(take(timezone.now())))

    @rule()
    def look(self) -> None:
        """Decide, and apply what was decided some steps later."""
        self.decided = decide.decide(take(timezone.now()))

    @precondition(lambda self: self.decided is not None)
    @rule()
    def apply_what_was_decided_before(self) -> None:
        decided, self.decided = self.decided, None
        assert decided is not None
        self._apply(decided)

    def _apply(self, decided: decide.Decided) -> None:
        """Apply a plan as the cycle does: whole, else in parts, and not at all where the turn was lost."""
        try:
            with transaction.atomic():
                apply(decided)
        except LostTurn:
            return
        except IntegrityError:
            apply(decided, piecemeal=True)

    # The clusters

    @rule(some=st.sets(st.integers(0, 5), min_size=1))
    def pods_go_on(self, some: set[int]) -> None:
        """Some of those whose pods may exist come one step further."""
        for number, row in enumerate(self._assigned(wanted=True, let_go=True)):
            phase = AFTER.get(self.phases.get(row.attempt_id))
            if number % 6 in some and phase is not None:
                self._say(row, phase)

    @rule(which=ANY, phase=st.sampled_from([ReportedPhase.FAILED, ReportedPhase.GONE]), created=st.booleans())
    def pods_fail(self, which: int, phase: ReportedPhase, created: bool) -> None:
        row = self._one(which, wanted=True, let_go=True)
        if row is not None:
            self._say(
                row, phase, exit_code=1 if created else None, **({} if created else {"created_at": None})
            )

    @rule(
        which=ANY, code=st.sampled_from(["drained", "node-lost", "registry-unreachable"]), gone=st.booleans()
    )
    def pods_are_taken_away(self, which: int, code: str, gone: bool) -> None:
        """By the cluster; some of them may be there still, and are gone with a later report."""
        row = self._one(which, wanted=True, let_go=True)
        if row is not None:
            left = () if gone else (PodReport(index=0, node="n", state=PodState.RUNNING),)
            self._say(row, ReportedPhase.FAILED, reason=code, message="Taken away.", pods=left)

    @rule(some=st.sets(st.integers(0, 5), min_size=1))
    def pods_are_gone(self, some: set[int]) -> None:
        for number, row in enumerate(self._assigned(wanted=False, gone=False)):
            if number % 6 in some:
                self._say(row, ReportedPhase.GONE)

    @precondition(lambda self: any(agent.said for agent in self.agents))
    @rule(which=ANY, late=ANY)
    def an_old_report_comes_again(self, which: int, late: int) -> None:
        agent = [agent for agent in self.agents if agent.said][which % 2 - 1]
        agent.repeat(agent.said[late % len(agent.said)])

    @rule(which=ANY)
    def pods_that_were_taken_away_are_gone(self, which: int) -> None:
        """Of a gang that shrank: the agent sees only the pods that stay."""
        row = self._one(which, wanted=True, let_go=True)
        if row is not None and self.phases.get(row.attempt_id) is ReportedPhase.RUNNING:
            staying = sorted(
                set(row.attempt.placements.filter(hold="held").values_list("pod_index", flat=True))
            )
            pods = tuple(PodReport(index=n, node="n", state=PodState.RUNNING) for n in staying)
            self._say(row, ReportedPhase.RUNNING, pods=pods)

    @rule(act=st.sampled_from(["silent", "speaks", "lost", "drained", "back"]), which=ANY)
    def trouble(self, act: str, which: int) -> None:
        cluster = self.agents[which % 2].cluster
        node = Node.objects.order_by("pk")[which % 3]
        if act in {"silent", "speaks"}:
            seen = timezone.now() - timedelta(hours=act == "silent")
            Cluster.objects.filter(pk=cluster.pk).update(connected=act == "speaks", last_seen_at=seen)
            assignments.let_go_waiting(cluster.pk, at=timezone.now())
        elif act == "lost":
            self._try(lambda: cluster_actions.declare_lost(by=SYSTEM, cluster=cluster))
        else:
            Node.objects.filter(pk=node.pk).update(cordoned=act == "drained")

    # Time

    @rule()
    def time_passes(self) -> None:
        Workload.objects.filter(backoff_until__isnull=False).update(backoff_until=timezone.now())
        enforce_time_limits()

    @invariant()
    def everything_is_true(self) -> None:
        assert broken() == []

    def _try(self, act: Callable[[], object]) -> None:
        try:
            with transaction.atomic():
                act()
        except Refusal:
            return

    def _team(self, which: int) -> Team:
        team = self.acme.teams[which % len(self.acme.teams)]
        team.refresh_from_db()
        return team

    def _workload(self, which: int) -> Workload:
        rows = Workload.objects.select_related("team", "owner").order_by("pk")
        return rows[which % rows.count()]

    def _assigned(self, **state: bool) -> list[Assignment]:
        return list(Assignment.objects.filter(**state).select_related("attempt").order_by("pk"))

    def _one(self, which: int, **state: bool) -> Assignment | None:
        found = self._assigned(**state)
        return found[which % len(found)] if found else None

    def _say(self, row: Assignment, phase: ReportedPhase, **told: Any) -> None:
        """Have the agent report what follows on what it said before."""
        self.phases[row.attempt_id] = phase
        agent = next(agent for agent in self.agents if agent.cluster.pk == row.cluster_id)
        agent.say(report(row.attempt, phase, row.report_sequence + 1, **told))


def test_whatever_happens_the_tables_hold_what_they_must(acme: Acme) -> None:
    # What fails is not made smaller, which takes minutes: thirty steps can be read.
    run = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        phases=(HypothesisPhase.generate,),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    machine = type("OfAcme", (Machine,), {"acme": acme})
    run_state_machine_as_test(machine, settings=run)
