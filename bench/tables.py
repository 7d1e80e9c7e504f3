"""The organisation of `bench.organisation` as rows of the database; Django must be set up."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from agentlink.models import Assignment, Cluster, Device, Hold, Node, Placement
from bench.organisation import NOW, POOL, Organisation, organisation
from chamber.ids import new_id
from chamber.models import User
from scheduling import engine
from teams.models import Pool, Share, Team
from workloads.models import Attempt, EndReason, Event, EventKind, Phase, Status, Workload

BATCH = 2_000


class TableWriter:
    """Writes the organisation, and lets part of what runs end so that others can start."""

    def __init__(self, scale: float, seed: int, starts: int, policy: dict[str, Any]) -> None:
        self.drawn = Organisation(scale, random.Random(seed + 1))
        self.seed, self.starts, self.policy = seed, starts, policy
        self.ids: dict[str, UUID] = {}
        self.devices: dict[tuple[str, int], UUID] = {}
        self.names = 0
        # The organisation's clock stands still: its moments are moved to where now is.
        self.shift = timezone.now() - datetime.fromtimestamp(NOW / 1000, UTC)

    def fill(self) -> None:
        """Write everything: the tree, the nodes, who runs and who waits."""
        snapshot = organisation(self.drawn.scale, self.seed, self.starts)
        workloads = snapshot.workloads
        self.teams = [team.id for team in snapshot.teams]
        # As `bench.engine` draws them: who waits for a reservation is of a team that uses all of its own.
        self.busy = [team.id for team in snapshot.teams if team.shares[0].reservation_milli][::2]
        with transaction.atomic():
            self.owner = User.objects.create(username="bench")
            self.cluster = Cluster.objects.create(name="bench", connected=True, last_seen_at=timezone.now())
            self.pool = Pool.objects.create(
                slug=POOL, name=POOL, clusters=["bench"], topology=["block", "rack"], policy=self.policy
            )
            self._teams(snapshot.teams)
            self._nodes(snapshot.nodes)
            self._running([each for each in workloads if each.status is engine.OpenStatus.RUNNING])
            self.add_pending([each for each in workloads if each.status is engine.OpenStatus.PENDING])
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    def _teams(self, teams: Sequence[engine.TeamInfo]) -> None:
        rows: dict[str, Team] = {}
        for team in teams:
            parent = None if team.parent is None else rows[team.parent]
            row = Team(
                slug=team.id,
                name=team.name,
                parent=parent,
                depth=0 if parent is None else parent.depth + 1,
                bursting_priority=team.weight,
                burst_limit_percent=team.burst_limit_percent,
            )
            row.path = Team.path_under(parent, row.pk)
            rows[team.id] = row
            self.ids[team.id] = row.pk
        Team.objects.bulk_create(rows.values(), batch_size=BATCH)
        Share.objects.bulk_create(
            Share(team=rows[team.id], pool=self.pool, reservation_milli=share.reservation_milli)
            for team in teams
            for share in team.shares
        )

    def _nodes(self, nodes: Sequence[engine.NodeInfo]) -> None:
        rows = [
            Node(
                cluster=self.cluster,
                name=node.name,
                pool=self.pool,
                cpu_milli=node.cpu_milli,
                memory_mib=node.memory_mib,
                labels=dict(node.labels),
            )
            for node in nodes
        ]
        Node.objects.bulk_create(rows, batch_size=BATCH)
        devices = [
            Device(node=row, index=device.index, gpu_type=device.gpu_type, memory_mib=device.memory_mib)
            for node, row in zip(nodes, rows, strict=True)
            for device in node.devices
        ]
        Device.objects.bulk_create(devices, batch_size=BATCH)
        self.devices = {(device.node.name, device.index): device.pk for device in devices}

    def _row(self, workload: engine.WorkloadInfo, **fields: Any) -> Workload:
        self.names += 1
        name = f"w{self.names:07d}"
        at = self._moment(workload.submitted_at)
        limit = workload.time_limit_ms
        return Workload(
            slug=name,
            name=name,
            owner=self.owner,
            team_id=self.ids[workload.team],
            priority=workload.priority,
            pods=workload.pods,
            min_pods=workload.min_pods,
            gpu_milli=workload.request.milli if isinstance(workload.request, engine.GpuShare) else None,
            cpu_milli=workload.cpu_milli,
            memory_mib=workload.memory_mib,
            topology_required=workload.topology.required or "",
            time_limit_seconds=None if limit is None else max(1, limit // 1000),
            image="registry.example/bench:1",
            submitted_at=at,
            status_since=at,
            last_event=1,
            **fields,
        )

    def _moment(self, milliseconds: int) -> datetime:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) + self.shift

    def _running(self, running: Sequence[engine.WorkloadInfo]) -> None:
        rows, attempts, placements = [], [], []
        for workload in running:
            row = self._row(
                workload, id=new_id(), status=Status.RUNNING, pool=self.pool, attempt_id=(key := new_id())
            )
            started = self._moment(workload.started_at or NOW)
            rows.append(row)
            attempts.append(
                Attempt(
                    id=row.attempt_id,
                    workload=row,
                    number=1,
                    pool=self.pool,
                    phase=Phase.RUNNING,
                    gpus_milli=sum(pod.milli for pod in workload.placements),
                    queued_at=started,
                    starting_at=started,
                    running_at=started,
                )
            )
            placements += [
                Placement(
                    attempt_id=key,
                    pod_index=pod.pod_index,
                    device_id=self.devices[pod.node, share.index],
                    share_milli=share.milli,
                    hold=Hold.HELD,
                )
                for pod in workload.placements
                for share in pod.devices
            ]
        Workload.objects.bulk_create(rows, batch_size=BATCH)
        Attempt.objects.bulk_create(attempts, batch_size=BATCH)
        Assignment.objects.bulk_create(
            (
                Assignment(attempt=attempt, cluster=self.cluster, generation=1, let_go=True)
                for attempt in attempts
            ),
            batch_size=BATCH,
        )
        Placement.objects.bulk_create(placements, batch_size=BATCH)
        self._submitted(rows)

    def add_pending(self, pending: Iterable[engine.WorkloadInfo]) -> None:
        """Write waiting workloads, each with its first event."""
        rows = [self._row(workload) for workload in pending]
        Workload.objects.bulk_create(rows, batch_size=BATCH)
        self._submitted(rows)

    def _submitted(self, rows: Iterable[Workload]) -> None:
        Event.objects.bulk_create(
            (
                Event(
                    workload=row,
                    sequence=1,
                    at=row.submitted_at,
                    kind=EventKind.SUBMITTED,
                    user=self.owner,
                    actor="bench",
                    via="api",
                    message="Submitted.",
                )
                for row in rows
            ),
            batch_size=BATCH,
        )

    def turn_over(self, count: int) -> None:
        """End the elastic workloads that began first, until about `count` of those who wait have room; add as many."""
        now = timezone.now()
        fresh = [self.drawn._pending(number, self.teams, self.busy) for number in range(count)]
        milli = sum(
            each.pods * each.request.milli for each in fresh if isinstance(each.request, engine.GpuShare)
        )
        with transaction.atomic():
            running = Workload.objects.filter(attempt__isnull=False, priority__lt=100).order_by(
                "status_since", "pk"
            )
            ended: list[tuple[UUID, UUID]] = []
            for pk, attempt, gpus in running.values_list("pk", "attempt", "attempt__gpus_milli").iterator():
                if milli <= 0:
                    break
                milli -= gpus
                ended.append((pk, attempt))
            workloads, attempts = [pk for pk, _ in ended], [attempt for _, attempt in ended]
            rows = Workload.objects.filter(pk__in=workloads)
            for status in (Status.STARTING, Status.RUNNING):
                before = Status.QUEUED if status is Status.STARTING else Status.STARTING
                rows.filter(status=before).update(status=status, version=F("version") + 1)
            rows.update(
                status=Status.COMPLETED,
                attempt=None,
                finished_at=now,
                status_since=now,
                version=F("version") + 1,
            )
            Attempt.objects.filter(pk__in=attempts).update(
                phase=Phase.OVER, ended_at=now, released_at=now, end_reason=EndReason.COMPLETED
            )
            Assignment.objects.filter(pk__in=attempts).update(wanted=False, gone=True)
            Placement.objects.filter(attempt__in=attempts).update(hold=Hold.RELEASED)
            self.add_pending(fresh)
