"""A picture read with what was kept of the last one is the picture that the tables alone give."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink import assignments
from agentlink.models import Assignment, Device, Hold, Node, Placement
from scheduling import engine
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import open_workloads, snapshot
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import make_nodes, pods_gone, run_pods
from teams.actors import Actor, Via
from workloads import actions, lifecycle
from workloads.models import Attempt, Dependency, Status, Workload
from workloads.tests.factories import finish, make_workload


class World:
    """Does what can happen to the tables, one thing at a time, drawn by chance."""

    def __init__(self, acme: Acme, seed: int) -> None:
        self.acme, self.chance = acme, random.Random(seed)

    def some(self, **wanted: object) -> Workload | None:
        rows = list(Workload.objects.filter(**wanted).order_by("pk"))
        return self.chance.choice(rows) if rows else None

    def submit(self) -> None:
        acme = self.acme
        team, owner = self.chance.choice([(acme.research, acme.owner), (acme.production, acme.outsider)])
        pods = self.chance.choice([1, 1, 3])
        workload = make_workload(
            team,
            owner,
            pods=pods,
            min_pods=1,
            gpu_milli=self.chance.choice([250, 1000, 2000]),
            priority=self.chance.choice([50, 60, 100]),
            node_selector=self.chance.choice([{}, {"kind": "a100"}]),
            tolerations=self.chance.choice([[], ["spot"], [7]]),
            max_retries=self.chance.choice([0, 3]),
        )
        needed = self.some()
        if self.chance.random() < 0.2 and needed is not None and needed != workload:
            Dependency.objects.create(workload=workload, needs=needed)

    def cycle(self) -> None:
        run_cycle()

    def create(self) -> None:
        queued = self.some(status=Status.QUEUED, attempt__assignment__let_go=True)
        if queued is not None and queued.attempt_id is not None:
            with transaction.atomic():
                lifecycle.pods_created(queued.attempt_id, timezone.now())

    def run(self) -> None:
        queued = self.some(status=Status.QUEUED, attempt__assignment__let_go=True)
        if queued is not None:
            run_pods([queued])

    def finish(self) -> None:
        running = self.some(status=Status.RUNNING)
        if running is not None and running.attempt is not None:
            finish(running.attempt, exit_code=self.chance.choice([0, 1]))

    def refuse(self) -> None:
        young = self.some(status__in=("queued", "starting"))
        if young is not None and young.attempt_id is not None:
            with transaction.atomic():
                lifecycle.refused(young.attempt_id, at=timezone.now(), message="No room.")

    def lose(self) -> None:
        admitted = self.some(attempt__isnull=False)
        if admitted is not None and admitted.attempt_id is not None:
            with transaction.atomic():
                lifecycle.lost(
                    [admitted.attempt_id], at=timezone.now(), by=Actor.system("link"), message="Lost."
                )

    def requeue(self) -> None:
        ended = self.some(finished_at__isnull=False)
        if ended is not None:
            actions.requeue(by=Actor.person(ended.owner, Via.PAGE), workload=ended)

    def edit(self) -> None:
        edited = self.some(finished_at__isnull=True)
        if edited is None:
            return
        change: dict[str, Any] = self.chance.choice(
            [
                {"priority": self.chance.choice([50, 60, 100])},
                {"gpu_types": self.chance.choice([[], ["H100"], 7])},
                {"backoff_until": None if edited.backoff_until is None else timezone.now()},
            ]
        )
        Workload.objects.filter(pk=edited.pk).update(**change, version=F("version") + 1)

    def checkpoint(self) -> None:
        Attempt.objects.filter(phase="running").update(checkpointed_at=timezone.now())

    def gone(self) -> None:
        stopping = Assignment.objects.filter(wanted=False, gone=False).values_list("attempt", flat=True)
        pods_gone(Attempt.objects.filter(pk__in=list(stopping[:1])))

    def shrink(self) -> None:
        gang = self.some(status=Status.RUNNING, pods=3)
        if gang is not None and gang.attempt is not None:
            with transaction.atomic():
                assignments.remove_pods(gang.attempt.pk, [2])

    def preempt(self) -> None:
        victim, winner = self.some(status=Status.RUNNING), self.some(status=Status.PENDING)
        if victim is None or winner is None:
            return
        order = lifecycle.PreemptionOrder(victim.pk, victim.version, "Reclaimed.", winner.pk, "reserved")
        with transaction.atomic():
            lifecycle.preempt_many([order], by=Actor.system("scheduler"), at=timezone.now())

    def hold(self) -> None:
        waiting = self.some(status=Status.PENDING)
        if waiting is not None:
            act = actions.release if waiting.held else actions.hold
            act(by=Actor.person(waiting.owner, Via.PAGE), workload=waiting)

    def cancel(self) -> None:
        workload = self.some(status__in=("pending", "queued", "running"))
        if workload is not None:
            actions.cancel(by=Actor.person(workload.owner, Via.PAGE), workload=workload)

    def node(self) -> None:
        node = self.chance.choice(list(Node.objects.order_by("pk")))
        change: dict[str, Any] = self.chance.choice(
            [
                {"ready": not node.ready},
                {"labels": {"kind": self.chance.choice(["a100", "h100"])}},
                {"taints": self.chance.choice([[], ["spot"], [{"not": "text"}]])},
                {"gone_at": None if node.gone_at else timezone.now()},
            ]
        )
        Node.objects.filter(pk=node.pk).update(**change)

    def more_nodes(self) -> None:
        if Node.objects.count() < 6:
            make_nodes(self.acme.cluster, self.acme.pool, 1)
        Device.objects.filter(index=self.chance.randrange(4)).update(foreign=self.chance.random() < 0.3)

    def share(self) -> None:
        self.acme.pool.shares.update(
            reservation_milli=self.chance.choice([2000, 4000]), version=F("version") + 1
        )

    def cluster(self) -> None:
        self.acme.cluster.connected = not self.acme.cluster.connected
        self.acme.cluster.save()

    def anything(self) -> None:
        acts: list[Callable[[], None]] = [
            self.submit, self.submit, self.cycle, self.cycle, self.create, self.run, self.run, self.finish,
            self.refuse, self.lose, self.requeue, self.edit, self.edit, self.checkpoint, self.gone, self.shrink,
            self.preempt, self.hold, self.cancel, self.node, self.more_nodes, self.share, self.cluster,
        ]  # fmt: skip
        self.chance.choice(acts)()


def as_sets(picture: SnapshotPicture) -> tuple[object, ...]:
    """Return the picture without the order of its rows, which means nothing."""
    rows = picture.snapshot
    return (
        rows.pools,
        set(rows.teams),
        set(rows.nodes),
        {row.id: row for row in rows.workloads},
        dict(picture.rows),
        dict(picture.devices),
        set(picture.left_aside),
    )


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_the_kept_picture_is_the_cold_one(acme: Acme, seed: int) -> None:
    world = World(acme, seed)
    for act in (*[world.submit] * 6, world.cycle, *[world.run] * 6):
        act()
    for _ in range(30):
        for _ in range(world.chance.choice([1, 1, 3])):
            world.anything()
        now = timezone.now()
        warm = take(now)
        kept = snapshot._memory
        snapshot.forget()
        assert as_sets(warm) == as_sets(take(now))
        snapshot._memory = kept


def warm_and_cold() -> tuple[SnapshotPicture, SnapshotPicture]:
    """Return the picture that is kept, brought up to now, and the one that the tables alone give."""
    now = timezone.now()
    warm = take(now)
    snapshot.forget()
    return warm, take(now)


def test_who_was_started_and_runs_is_not_read_again(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    run_cycle()
    run_pods([workload])

    with CaptureQueriesContext(connection) as queries:
        row = take(timezone.now()).snapshot.workloads[0]

    assert row.status is engine.OpenStatus.RUNNING
    assert not [query["sql"] for query in queries if "on_preemption" in query["sql"]]


def test_a_change_of_what_it_asks_is_seen_behind_a_step_of_its_status(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    run_cycle()
    take(timezone.now())
    Workload.objects.filter(pk=workload.pk).update(priority=60, version=F("version") + 1)
    run_pods([Workload.objects.get(pk=workload.pk)])

    warm, cold = warm_and_cold()

    assert as_sets(warm) == as_sets(cold)


def test_the_end_of_a_pause_is_seen_behind_an_admission(acme: Acme) -> None:
    make_workload(acme.research, acme.owner, backoff_until=timezone.now())
    before = take(timezone.now()).snapshot.workloads[0]
    run_cycle()

    warm, cold = warm_and_cold()

    assert (before.backing_off_until is None, warm.snapshot.workloads[0].backing_off_until) == (False, None)
    assert as_sets(warm) == as_sets(cold)


def test_what_did_not_change_is_the_very_object_of_before(acme: Acme) -> None:
    stays = make_workload(acme.research, acme.owner)
    before = take(timezone.now()).snapshot
    make_workload(acme.research, acme.owner)

    after = take(timezone.now()).snapshot

    rows: list[engine.WorkloadInfo] = [row for row in after.workloads if row.id == str(stays.pk)]
    assert rows[0] is before.workloads[0]
    assert after.nodes is before.nodes
    assert after.teams is before.teams


def test_a_placement_on_a_node_that_is_gone_keeps_its_place(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    run_cycle()
    lying = Placement.objects.get(attempt__workload=workload, hold=Hold.HELD)
    Node.objects.filter(pk=lying.device.node_id).update(gone_at=timezone.now())

    row = take(timezone.now()).snapshot.workloads[0]

    assert [pod.node for pod in row.placements] == [str(lying.device.node_id)]


def test_a_row_that_cannot_be_read_is_noted_in_each_picture_and_logged_once(
    acme: Acme, caplog: pytest.LogCaptureFixture
) -> None:
    make_workload(acme.research, acme.owner, tolerations=[7])

    notes = [take(timezone.now()).left_aside for _ in range(2)]
    for _ in range(2):  # so many that all open ones are read
        make_workload(acme.research, acme.owner)
    notes.append(take(timezone.now()).left_aside)

    assert [len(each) for each in notes] == [1, 1, 1]
    assert caplog.text.count("cannot be read") == 1


def test_what_anybody_may_have_written_stays_in_its_line(acme: Acme) -> None:
    odd = 'a\tb\nc"d\\e, \x01 \u20ac'
    workload = make_workload(acme.research, acme.owner, reason_code=odd)
    Device.objects.filter(index=1).update(gpu_type=odd, memory_mib=None, foreign=True)

    picture = take(timezone.now())

    assert picture.rows[str(workload.pk)].reason_code == odd
    for node in picture.snapshot.nodes:
        first, second = node.devices[:2]
        assert (second.gpu_type, second.memory_mib, second.foreign) == (odd, None, True)
        assert (first.gpu_type == odd, first.foreign) == (False, False)


def test_a_changed_row_is_the_only_one_that_is_read_anew(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, _, gone = [make_workload(acme.research, acme.owner) for _ in range(3)]
    take(timezone.now())
    Workload.objects.filter(pk=changed.pk).update(reason_code="held", held=True, version=F("version") + 1)
    actions.cancel(by=Actor.person(gone.owner, Via.PAGE), workload=gone)
    made: list[str] = []
    known = open_workloads._known

    def counted(row: list[str], *args: Any) -> Any:
        made.append(row[0])
        return known(row, *args)

    monkeypatch.setattr(open_workloads, "_known", counted)

    warm = take(timezone.now())

    assert made == [str(changed.pk)]
    snapshot.forget()
    assert as_sets(warm) == as_sets(take(warm.taken_at))
