"""An agent for tests: messages by hand, or a whole one on a server of its own."""

import asyncio
import contextlib
import json
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import uvicorn
from channels.db import database_sync_to_async
from django.db import transaction
from django.utils import timezone

from agentlink import assignments, protocol
from agentlink.models import AgentToken, Cluster, Device, Node
from agentlink.protocol import (
    DeviceReport,
    Heartbeat,
    Hello,
    Message,
    NodeReport,
    PodReport,
    PodState,
    Report,
    ReportedPhase,
)
from agentlink.session import Answer, Session, authenticate
from chamber import live

# Imported early: it sets logging up anew, which would take a test's own handler away.
from chamber.asgi import application
from chamber.models import User
from teams.actors import Actor
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload

SCHEDULER = Actor.system("scheduler")


def make_token(cluster: Cluster, **fields: Any) -> str:
    """Return the secret of a new token."""
    secret = AgentToken.new_secret()
    AgentToken.objects.create(
        cluster=cluster, token_hash=AgentToken.hash_of(secret), prefix=secret[:12], **fields
    )
    return secret


def nodes(count: int, *, gpus: int = 4, name: str = "n", **fields: Any) -> list[NodeReport]:
    """Return nodes `n1`, `n2`, ... as an agent reports them."""
    return [
        NodeReport(
            name=f"{name}{number}",
            devices=tuple(DeviceReport(index=index, gpu_type="H100") for index in range(gpus)),
            **fields,
        )
        for number in range(1, count + 1)
    ]


def admit(
    team: Team, owner: User, pool: Pool, cluster: Cluster, devices: Iterable[Device], **fields: Any
) -> Attempt:
    """Return the attempt of a new workload that lies on these devices, a pod on each; `share` of each (1000), which is
    also what its pods ask for, but where `asked` says otherwise: a slice is asked for as 1000.
    """
    share = fields.pop("share", 1000)
    asked = fields.pop("asked", share)
    workload: Workload | None = fields.pop("workload", None)
    found = list(devices)
    if workload is None:
        workload = make_workload(team, owner, pods=len(found), gpu_milli=asked, **fields)
    workload.refresh_from_db()
    with transaction.atomic():
        order = lifecycle.PlannedStart(
            workload_id=workload.pk, version=workload.version, pool_id=pool.pk, allocation=[],
            gpus_milli=share * len(found), message="Admitted.",
        )  # fmt: skip
        opened = lifecycle.admit_many([order], by=SCHEDULER, at=timezone.now())[workload.pk]
        shares = [(index, device.pk, share) for index, device in enumerate(found)]
        assignments.assign_many([assignments.NewAssignment(opened.pk, cluster.pk, shares)])
    return Attempt.objects.get(pk=opened.pk)


def cancel(attempt: Attempt) -> None:
    """End the attempt's workload as a person would."""
    with transaction.atomic():
        lifecycle.cancel_many([attempt.workload_id], by=SCHEDULER, at=timezone.now())


def devices_of(cluster: Cluster, name: str) -> list[Device]:
    """Return a node's devices in order."""
    return list(Node.objects.get(cluster=cluster, name=name).devices.order_by("index"))


def report(attempt: Attempt, phase: ReportedPhase, sequence: int, **fields: Any) -> Report:
    """Return a report of the attempt, by default of pods as the phase has them."""
    now = timezone.now()
    created = phase is not ReportedPhase.PENDING
    ran = phase in (ReportedPhase.RUNNING, ReportedPhase.SUCCEEDED)
    state = PodState.RUNNING if ran else PodState.PENDING
    living = phase in (ReportedPhase.STARTING, ReportedPhase.RUNNING, ReportedPhase.STOPPING)
    fields.setdefault("created_at", now if created else None)
    fields.setdefault("running_at", now if ran else None)
    fields.setdefault("generation", 2**40)
    fields.setdefault("exit_code", 0 if phase is ReportedPhase.SUCCEEDED else None)
    fields.setdefault("pods", (PodReport(index=0, node="n1", state=state),) if living else ())
    return Report(
        workload=attempt.workload_id, attempt=attempt.pk, number=attempt.number, sequence=sequence, phase=phase,
        **fields,
    )  # fmt: skip


class Hand:
    """Plays an agent by hand on a session of its own, which looks at the tables with each message."""

    def __init__(self, cluster: Cluster, *, hello: bool = True, uid: str = "u") -> None:
        token = authenticate(f"Bearer {make_token(cluster)}")
        assert isinstance(token, AgentToken)
        self.session = Session(token)
        self.session.check_seconds = -1.0
        self.connection, self.uid = uuid.uuid4(), uid
        self.greeting = self.say(self.hello()) if hello else Answer()

    def hello(self) -> Hello:
        return Hello(connection=self.connection, agent_version="1", cluster_uid=self.uid, nodes=0, gpus=0)

    def farewell(self) -> Hello:
        return self.hello().model_copy(update={"farewell": True})

    def heartbeat(self, generation: int = 0) -> Heartbeat:
        return Heartbeat(connection=self.connection, generation=generation)

    def say(self, message: Message) -> Answer:
        return self.session.take(protocol.encode(message))

    def inventory(self, found: Iterable[NodeReport], *, generation: int = 1) -> None:
        for part in protocol.inventory_in_parts(list(found), generation=generation):
            self.say(part)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Serve the project on a free port of the loopback; yield its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    live.bind(asyncio.get_running_loop())
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        live.bind(None)
        server.should_exit = True
        await task
        listener.close()


@contextlib.asynccontextmanager
async def running(agent: Any) -> AsyncIterator["asyncio.Task[None]"]:
    """Run an agent's coroutine beside the test."""
    task = asyncio.create_task(agent)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def in_database(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run database work as another process would: in a thread."""
    return await database_sync_to_async(function, thread_sensitive=False)(*arguments)


async def until(condition: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Return what the condition gives, once it gives something true; fail after `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = await in_database(condition)
        if found:
            return found
        late = asyncio.get_running_loop().time() >= deadline
        assert not late, await in_database(lambda: f"{condition} did not hold within {seconds} s")
        await asyncio.sleep(0.05)


def as_dict(message: Message) -> dict[str, Any]:
    """Return a message as JSON has it."""
    found: dict[str, Any] = json.loads(protocol.encode(message))
    return found
