"""Rows for `bench.link`: clusters with devices, workloads that are admitted on them, agents played by hand."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agentlink import assignments
from agentlink.assignments import NewAssignment
from agentlink.models import Cluster, Device, Node
from agentlink.tests.agents import SCHEDULER, Hand, make_token
from chamber.models import User
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.models import Workload

BATCH = 2_000


class LinkRows:
    """Writes rows beside one team, one pool and one person."""

    def __init__(self) -> None:
        self.team = Team(slug="bench", name="Bench", depth=0)
        self.team.path = Team.path_under(None, self.team.pk)
        self.team.save()
        self.pool = Pool.objects.create(slug="bench", name="bench")
        self.owner = User.objects.create(username="bench")
        self.made = 0

    def cluster(self, name: str, *, devices: int) -> tuple[Cluster, list[UUID]]:
        """Return a connected cluster, and its devices, eight to a node."""
        cluster = Cluster.objects.create(name=name, connected=True, last_seen_at=timezone.now())
        self.pool.clusters.append(name)
        self.pool.save(update_fields=["clusters"])
        nodes = [
            Node(cluster=cluster, name=f"n{number}", pool=self.pool) for number in range(1, devices // 8 + 2)
        ]
        Node.objects.bulk_create(nodes, batch_size=BATCH)
        made = [Device(node=nodes[number // 8], index=number % 8) for number in range(devices)]
        Device.objects.bulk_create(made, batch_size=BATCH)
        return cluster, [device.pk for device in made]

    def admit_only(
        self, cluster: Cluster, devices: Sequence[UUID], *, pods: int = 1
    ) -> tuple[list[lifecycle.OpenedAttempt], list[NewAssignment]]:
        """Return new attempts of `pods` pods, one for each device, and how they are to be assigned."""
        now, places = timezone.now(), [devices[at : at + pods] for at in range(0, len(devices), pods)]
        workloads = [
            Workload(
                slug=f"w{self.made + number}", name="w", owner=self.owner, team=self.team, gpu_milli=1000,
                image="registry.example/bench:1", command=["sleep", "1"], submitted_at=now, status_since=now,
                pods=pods, min_pods=pods,
            )
            for number in range(len(places))
        ]  # fmt: skip
        self.made += len(places)
        Workload.objects.bulk_create(workloads, batch_size=BATCH)
        orders = [
            lifecycle.PlannedStart(
                workload_id=row.pk, version=row.version, pool_id=self.pool.pk, allocation=[], gpus_milli=1000 * pods,
                message="Admitted.",
            )
            for row in workloads
        ]  # fmt: skip
        with transaction.atomic():
            attempts = lifecycle.admit_many(orders, by=SCHEDULER, at=now)
        admitted = [attempts[row.pk] for row in workloads]
        return admitted, [
            NewAssignment(
                attempt.pk, cluster.pk, [(index, device, 1000) for index, device in enumerate(place)]
            )
            for attempt, place in zip(admitted, places, strict=True)
        ]

    @staticmethod
    def assign(items: Sequence[NewAssignment]) -> None:
        """Place attempts as a cycle does."""
        with transaction.atomic():
            assignments.assign_many(items)

    def admit(self, cluster: Cluster, devices: Sequence[UUID]) -> None:
        """Place a new attempt on each device."""
        _, items = self.admit_only(cluster, devices)
        self.assign(items)

    def agent(self, name: str) -> Hand:
        """Return an agent of a new, empty cluster, that has said hello."""
        hand = self.agent_of(self.cluster(name, devices=0)[0])
        hand.say(hand.hello())
        return hand

    @staticmethod
    def agent_of(cluster: Cluster) -> Hand:
        """Return an agent that has not said hello yet."""
        return Hand(cluster, hello=False)

    @staticmethod
    def secret(cluster: Cluster) -> str:
        """Return the secret of a new token."""
        return make_token(cluster)
