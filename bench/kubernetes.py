"""What the agent costs in a real Kubernetes, how soon much work is let go, how soon Chamber's tables know of a change.

    python -m bench.kubernetes      # starts a control plane, PostgreSQL, Redis and a live process of its own
    python -m bench.kubernetes --nodes 100 --workloads 50 --others 50

Prints JSON. Each workload has a node's eight GPUs, one to a pod; beside them run pods of others, one to a node. First
the same work runs as bare Jobs; then it is assigned to the agent at once. Kubelets are played, everything else is real.
All share the machine, so the CPU seconds of each process say more than the wall clock where others work, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

from bench.processes import cpu_seconds
from rig import deployment, kubernetes, servers
from rig.namespaces import Namespace, Refused, namespace, node_body

GPUS = 8
PATIENCE_SECONDS = 900.0
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--workloads", type=int, default=500)
    parser.add_argument("--others", type=int, default=1_000, help="pods that are not Chamber's")
    parser.add_argument("--changes", type=int, default=20, help="phase changes that are timed")
    parser.add_argument(
        "--idle", type=float, default=30.0, help="seconds for which the idle agent is watched"
    )
    arguments = parser.parse_args()
    with ExitStack() as stack:
        plane = stack.enter_context(kubernetes.running())
        database, redis = stack.enter_context(servers.postgresql()), stack.enter_context(servers.redis())
        os.environ |= servers.environment(database, redis)
        os.environ |= {"DJANGO_SETTINGS_MODULE": "chamber.settings", "CHAMBER_LOG_LEVEL": "ERROR"}
        team = stack.enter_context(deployment.running(database, redis, start=False, organisation=False))
        import django

        django.setup()
        team.services["live"].start(wait=False)
        team.services["live"].wait_for("/livez")
        place = BareCluster(plane, stack.enter_context(namespace(plane.kubeconfig)))
        figures = {"nodes": arguments.nodes, "workloads": arguments.workloads, "pods_a_workload": GPUS}
        place.furnish(arguments.nodes, arguments.others)
        measured = figures | place.bare(arguments.workloads)
        agent = Agent(team, place.of)
        stack.callback(agent.stop)
        costs = Costs(plane, {"PostgreSQL": database.pid, "live": team.services["live"].pid})
        measured |= measure(agent, place, costs, arguments)
    json.dump(measured, sys.stdout, indent=2)
    print()
    return 0


class Costs:
    """CPU seconds by process since it was made, or last asked."""

    def __init__(self, plane: kubernetes.ControlPlane, others: Mapping[str, int] | None = None) -> None:
        parts = (plane.etcd, plane.api, plane.controllers, plane.scheduler, plane.kubelets)
        self._pids = {part.name: part.pid for part in parts} | dict(others or {})
        self._before = self._now()

    def add(self, name: str, pid: int) -> None:
        """Count one process more."""
        self._pids[name] = pid
        self._before = self._now()

    def since(self) -> dict[str, float]:
        """Return what each has used, this process too."""
        before, self._before = self._before, self._now()
        return {name: round(seconds - before[name], 1) for name, seconds in self._before.items()}

    def _now(self) -> dict[str, float]:
        used = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        return used | {"this": time.process_time()}


class Running(threading.Thread):
    """Counts a namespace's running pods by one watch: to list them again and again would be much of the load."""

    def __init__(self, plane: kubernetes.ControlPlane, path: str) -> None:
        super().__init__(daemon=True)
        self._client, self._path = _client(plane), path
        self._pods: set[str] = set()
        self.start()

    def __len__(self) -> int:
        return len(self._pods)

    def run(self) -> None:
        """Follow until the API server is away."""
        params = {"watch": "1", "fieldSelector": "status.phase=Running"}
        accept = {"Accept": METADATA_ONLY}
        with suppress(httpx.ConnectError):
            while True:
                self._pods = set()
                with (
                    suppress(httpx.RemoteProtocolError, httpx.ReadError),
                    self._client.stream(
                        "GET", self._path, params=params, headers=accept, timeout=None
                    ) as answer,
                ):
                    for line in answer.iter_lines():
                        self._hear(json.loads(line))

    def _hear(self, event: dict[str, Any]) -> None:
        if event["type"] == "ADDED":
            self._pods.add(event["object"]["metadata"]["name"])
        elif event["type"] == "DELETED":
            self._pods.discard(event["object"]["metadata"]["name"])


class BareCluster:
    """The cluster without Chamber: nodes, other people's pods, and the same work as bare Jobs."""

    def __init__(self, plane: kubernetes.ControlPlane, of: Namespace) -> None:
        self.plane, self.of, self.admin = plane, of, of.admin
        self.pods = f"/api/v1/namespaces/{of.name}/pods"
        self.running = Running(plane, self.pods)

    def furnish(self, nodes: int, others: int) -> None:
        """Make the nodes, and on each a pod that is not Chamber's."""
        names = [f"{self.of.name}-{number:05}" for number in range(nodes)]
        _at_once(self._node, names)
        _until(lambda: self._ready_nodes() == nodes, every=1.0)
        _at_once(self._other, names[:others])
        _until(lambda: len(self.running) == others)
        self.others = others

    def bare(self, jobs: int) -> dict[str, Any]:
        """Return what it takes from the first of so many Jobs to the last of their pods running; they are gone then."""
        began, costs = time.monotonic(), Costs(self.plane)
        _at_once(self._job, range(jobs))
        _until(lambda: len(self.running) == self.others + jobs * GPUS)
        took = {
            "bare_jobs_seconds": round(time.monotonic() - began, 1),
            "bare_jobs_cpu_seconds": costs.since(),
        }
        self.admin.delete_all("batch/v1", "jobs", self.of.name, propagationPolicy="Background")
        _until(self._cleared, every=1.0)
        return took

    def rejected(self) -> float:
        """Return how many requests the API server's fairness has turned away so far."""
        with _client(self.plane) as client:
            lines = client.get("/metrics").raise_for_status().text.splitlines()
        name = "apiserver_flowcontrol_rejected_requests_total{"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def fail(self, pod: str) -> None:
        """Have a pod's process end with status 1, as its kubelet would write it."""
        ended = {
            "exitCode": 1,
            "reason": "Error",
            "finishedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        found = self.admin.get("v1", "pods", pod, self.of.name)["status"]["containerStatuses"][0]
        statuses = [
            container | {"name": found["name"], "image": found["image"], "state": {"terminated": ended}}
        ]
        body = {"status": {"phase": "Failed", "containerStatuses": statuses}}
        self.admin.merge("v1", "pods", pod, body, self.of.name, part="status")

    def _node(self, name: str) -> None:
        body = node_body(name, gpus=GPUS)
        body["metadata"]["labels"][self.of.label] = "true"
        self.admin.create(body, "nodes")

    def _other(self, node: str) -> None:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "registry.test/other:1"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{node}"}, "spec": spec}
        self.admin.create(pod, "pods", self.of.name)

    def _job(self, number: int) -> None:
        container = {
            "name": "main",
            "image": "registry.test/bare:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        spec = {"containers": [container], "restartPolicy": "Never", "nodeSelector": {self.of.label: "true"}}
        job = {"parallelism": GPUS, "completions": GPUS, "completionMode": "Indexed", "backoffLimit": 0}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"bare-{number}"}}
        self.admin.create(body | {"spec": job | {"template": {"spec": spec}}}, "jobs", self.of.name)

    def _ready_nodes(self) -> int:
        nodes = self.admin.items("v1", "nodes", labels=self.of.selector)
        return sum(not node["spec"].get("taints") for node in nodes)

    def _cleared(self) -> bool:
        """Return whether no pod of a Job is left; those that are get deleted, as many as one request can."""
        with suppress(Refused):
            self.admin.delete_all("v1", "pods", self.of.name, labels="job-name", gracePeriodSeconds="0")
            return not self.admin.items("v1", "pods", self.of.name, labels="job-name")
        return False


def _client(plane: kubernetes.ControlPlane) -> httpx.Client:
    """Return a client of the API server, as its admin."""
    token = json.loads(plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    return httpx.Client(
        base_url=plane.url,
        headers={"Authorization": f"Bearer {token}"},
        verify=False,  # noqa: S501 - our own, on loopback
        timeout=30,
        trust_env=False,
    )


class Agent:
    """The agent as a process, as an operator runs it; its cluster's row and token are made here."""

    def __init__(self, team: deployment.Deployment, of: Namespace) -> None:
        from agentlink.models import Cluster
        from agentlink.tests.agents import make_token

        self.cluster = Cluster.objects.create(name="bench")
        token = team.folder / "agent.token"
        token.write_text(make_token(self.cluster))
        self.port = servers.free_port()
        words = ["--url", team.live_url, "--kubeconfig", of.kubeconfig, "--namespace", of.name]
        words += ["--token-file", token, "--node-selector", of.selector, "--health-port", self.port]
        self.command = [sys.executable, "-m", "chamber.cli", "agent", *map(str, words)]
        self.log = team.folder / "agent.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the process."""
        _expect(self.process is not None and self.process.poll() is None, self.log)
        assert self.process is not None  # noqa: S101 - just looked at
        return self.process.pid

    def start(self) -> float:
        """Start it, and return the seconds until it says that it is ready."""
        began = time.monotonic()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command, stdout=output, stderr=output, start_new_session=True
            )
        _until(self._ready)
        return round(time.monotonic() - began, 2)

    def stop(self) -> None:
        """Stop it in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()

    def resident_mib(self) -> float:
        """Return how much memory it has."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return round(int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024, 1)

    def _ready(self) -> bool:
        _expect(self.process is not None and self.process.poll() is None, self.log)
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5, trust_env=False).is_success
        except httpx.HTTPError:
            return False


def measure(agent: Agent, place: BareCluster, costs: Costs, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one agent, from its first start to a look at it when it idles among all that runs."""
    from agentlink.models import Device, Node
    from bench.link_rows import LinkRows
    from workloads.models import Attempt

    figures: dict[str, Any] = {"empty_sync_seconds": agent.start()}
    nodes = Node.objects.filter(cluster=agent.cluster, gone_at=None)
    _until(lambda: nodes.count() == arguments.nodes)
    rows, rejected = LinkRows(), place.rejected()
    devices = list(
        Device.objects.filter(node__cluster=agent.cluster)
        .order_by("node__name", "index")
        .values_list("pk", flat=True)
    )[: arguments.workloads * GPUS]
    attempts, items = rows.admit_only(agent.cluster, devices, pods=GPUS)
    costs.add("agent", agent.pid)
    began = time.monotonic()
    rows.assign(items)
    ended = Attempt.objects.filter(ended_at__isnull=False)

    def all_run() -> bool:
        _expect(not ended.exists(), agent.log)
        return len(place.running) == place.others + len(attempts) * GPUS

    _until(all_run)
    figures["all_pods_run_seconds"] = round(time.monotonic() - began, 1)
    running = Attempt.objects.filter(running_at__isnull=False)
    _until(lambda: running.count() == len(attempts))
    figures["all_known_to_run_seconds"] = round(time.monotonic() - began, 1)
    figures["cpu_seconds_for_that"] = costs.since()
    figures["requests_turned_away"] = place.rejected() - rejected
    figures["resident_mib_after_that"] = agent.resident_mib()
    agent.stop()
    figures["full_sync_seconds"] = agent.start()
    figures["full_sync_cpu_seconds"] = round(cpu_seconds(agent.pid), 2)
    time.sleep(5)  # its first heartbeat and lease are no part of idling
    cpu, began = cpu_seconds(agent.pid), time.monotonic()
    time.sleep(arguments.idle)
    figures["idle_percent_of_a_core"] = round(
        100 * (cpu_seconds(agent.pid) - cpu) / (time.monotonic() - began), 2
    )
    figures["resident_mib"] = agent.resident_mib()
    waits = [_change(place, attempt.pk) for attempt in attempts[: arguments.changes]]
    figures["phase_change_seconds"] = {
        "median": round(statistics.median(waits), 3),
        "most": round(max(waits), 3),
    }
    return figures


def _change(place: BareCluster, attempt: Any) -> float:
    """Return the seconds from a pod's failure to its attempt's end in Chamber's tables."""
    from workloads.models import Attempt

    pods = place.admin.items("v1", "pods", place.of.name, labels=f"chamber.internal/attempt={attempt}")
    place.fail(pods[0]["metadata"]["name"])
    began = time.monotonic()
    _until(lambda: Attempt.objects.filter(pk=attempt, ended_at__isnull=False).exists(), every=0.01)
    return time.monotonic() - began


def _at_once(do: Callable[[Any], None], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, items))


def _until(holds: Callable[[], bool], *, every: float = 0.2) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        _expect(time.monotonic() < deadline)
        time.sleep(every)


def _expect(holds: bool, log: Path | None = None) -> None:
    if not holds:
        said = log.read_text(errors="replace")[-2000:] if log is not None and log.exists() else ""
        sys.exit(f"What was measured did not do what it should: the figures would mean nothing. {said}")


if __name__ == "__main__":
    sys.exit(main())
