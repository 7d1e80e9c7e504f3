"""Letting go of a cluster: what is refused, and when the server hears nothing of it. The API server is played."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentlink.agent import command, farewell, release
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.farewell import ServerAddress
from agentlink.agent.kube.access import Access
from agentlink.agent.kube.errors import NotFound
from agentlink.agent.kube.resources import JOBS, SECRETS, JsonObject, Resource
from agentlink.agent.link import LinkLost
from agentlink.agent.native import AgentOptions
from agentlink.agent.release import Left, NotReleased

NAMES = DomainNames()
SERVER = ServerAddress("http://chamber.test", lambda: "cha_x")


def job(name: str, **status: Any) -> JsonObject:
    """Return a Job with Chamber's labels and finalizer, and a mark that is not this agent's."""
    return {
        "metadata": {
            "namespace": "chamber-workloads", "name": name, "uid": "u", "finalizers": [NAMES.report],
            "labels": {NAMES.cluster: "c", NAMES.workload: "w", NAMES.attempt: "a"},
            "annotations": {NAMES.mark: "ab" * 32, NAMES.plan: "{}"},
        },
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
        "status": status,
    }  # fmt: skip


OVER = {"conditions": [{"type": "Complete", "status": "True"}]}


class Api:
    """An API server with these Jobs, and a mark in the agent's namespace where `key` is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *jobs: JsonObject, key: bytes | None) -> None:
        self.jobs, self.key = list(jobs), key
        self.leases: list[str] = []
        self.told: list[str] = []
        monkeypatch.setattr(release, "Kube", lambda _: self)
        monkeypatch.setattr(release, "Leadership", self.leadership)
        monkeypatch.setattr(release, "_let_go", self.let_go)
        monkeypatch.setattr(release, "tell", self.tell)

    async def __aenter__(self) -> "Api":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def get(self, kind: Resource, name: str, namespace: str = "") -> JsonObject:
        if kind is not SECRETS:
            return {"metadata": {"uid": "cluster"}}
        if self.key is None:
            raise NotFound(404, "NotFound", f"secrets {name!r} not found in {namespace}")
        return {"data": {"key": b64encode(self.key).decode()}}

    async def list(self, kind: Resource, *, labels: str) -> SimpleNamespace:
        assert (kind, labels) == (JOBS, NAMES.cluster)
        return SimpleNamespace(items=list(self.jobs))

    def leadership(self, _: Access, *, namespace: str) -> SimpleNamespace:
        async def take_over(work: Any) -> bool:
            self.leases.append(namespace)
            await work()
            return True

        return SimpleNamespace(take_over=take_over)

    async def let_go(self, *_: object, **__: object) -> Sequence[object]:
        return []

    async def tell(self, _: ServerAddress, uid: str, __: object) -> str:
        self.told.append(uid)
        return ""

    async def release(self, *, in_cluster: bool = False) -> Left:
        access: Any = SimpleNamespace(namespace="default")
        return await release.release(
            access, AgentOptions(), stop_workloads=False, timeout_seconds=60, settle_seconds=0, server=SERVER,
            in_cluster=in_cluster,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("in_cluster", "step"),
    [
        (False, "kubectl config set-context --current --namespace NAMESPACE"),
        (True, "remove this one with `helm uninstall --no-hooks`."),
    ],
)
async def test_from_a_namespace_without_the_agents_mark_it_is_refused_and_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, in_cluster: bool, step: str
) -> None:
    api = Api(monkeypatch, job("train-1", active=4), key=None)  # which has no way of making anything
    with pytest.raises(NotReleased) as refused:
        await api.release(in_cluster=in_cluster)
    said = str(refused.value)
    assert said.startswith(
        "The namespace default has no Secret chamber-agent-mark: no agent has worked from there."
    )
    assert "Chamber's finalizer is on 1 Job (chamber-workloads/train-1). Nothing was changed." in said
    assert step in said
    assert (api.leases, api.told) == ([], [])


async def test_an_agent_that_never_worked_may_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch, key=None)
    left = await api.release(in_cluster=True)
    assert left == Left((), (), (), untold="no agent has worked from the namespace default")
    with pytest.raises(
        NotReleased, match="has no Secret chamber-agent-mark"
    ):  # from outside, another one may
        await api.release()
    assert (api.leases, api.told) == ([], [])


async def test_the_server_is_not_told_while_a_job_runs_that_bears_the_finalizer_without_the_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(monkeypatch, job("train-1", active=4), job("train-2", **OVER), key=b"k" * 32)
    left = await api.release()
    assert left.active == ("chamber-workloads/train-1",)
    assert left.untold == (
        "still running with Chamber's finalizer, without this agent's mark: 1 Job (chamber-workloads/train-1)"
    )
    assert (api.leases, api.told) == (["default"], [])

    api.jobs[0]["status"] = OVER
    left = await api.release()
    assert (len(left.unmarked), left.active, left.untold, api.told) == (2, (), "", ["cluster"])


async def test_what_began_to_run_while_the_cluster_was_let_go_of_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(monkeypatch, key=b"k" * 32)

    async def let_go(*_: object, **__: object) -> Sequence[object]:
        api.jobs.append(job("train-1"))  # its pods are not there yet
        return []

    monkeypatch.setattr(release, "_let_go", let_go)
    left = await api.release()
    assert ("train-1" in left.untold, api.told) == (True, [])


@pytest.mark.parametrize(
    ("active", "step"),
    [
        (
            (),
            "Declare that lost on the cluster's page, which is possible once it has been silent for a while.",
        ),
        (("n/j",), "Release them by their own agent, or end them, before you declare what ran here lost."),
    ],
)
def test_the_command_says_what_to_do_where_the_server_was_not_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    active: tuple[str, ...], step: str,
) -> None:  # fmt: skip
    async def let_go(*_: object, **__: object) -> Left:
        return Left((), (), active, active, untold="x")

    monkeypatch.setattr("agentlink.agent.kube.access.load", lambda *_: object())
    monkeypatch.setattr(release, "release", let_go)
    assert command.main_release(kubeconfig=tmp_path) == 0
    assert (
        f"Chamber was not told: x. It goes on showing what ran here as running. {step}"
        in capsys.readouterr().out
    )


async def test_a_server_that_cannot_be_told_is_one_line_and_asked_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[LinkLost | None] = [*[LinkLost("Nobody answers.")] * 5, LinkLost("It starts."), None]
    pauses: list[float] = []

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[None]:
        if lost := tries.pop(0):
            raise lost
        yield None

    async def say(*_: object) -> None:
        return None

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(farewell, "open_link", opened)
    monkeypatch.setattr(farewell, "_say", say)
    monkeypatch.setattr(farewell, "asyncio", SimpleNamespace(sleep=sleep, timeout=asyncio.timeout))
    caplog.set_level(logging.INFO, logger=farewell.__name__)
    assert await farewell.tell(SERVER, "cluster", (), within_seconds=60) == ""
    assert [record.getMessage() for record in caplog.records] == [
        "The server could not be told yet: Nobody answers. Trying for 60 s.",
        "The server could not be told yet: It starts. Trying for 60 s.",
    ]
    assert pauses == [1, 2, 4, 8, 8, 8]
