"""The rig's Kubernetes: namespaces apart from each other, and what its played kubelets do when a test asks."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rig import deployment
from rig.namespaces import Namespace, Refused
from rig.namespaces import namespace as another_namespace
from tests.waiting import until

pytestmark = pytest.mark.kube
Pod = dict[str, Any]


def pod(name: str, node: str, environment: dict[str, str] | None = None, *, grace_seconds: int = 30) -> Pod:
    variables = [{"name": key, "value": value} for key, value in (environment or {}).items()]
    container = {"name": "main", "image": "registry.test/main:1", "env": variables}
    spec = {"containers": [container], "nodeName": node, "restartPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": spec | {"terminationGracePeriodSeconds": grace_seconds},
    }


def reaches(namespace: Namespace, name: str, holds: Callable[[Pod], object]) -> Pod:
    """Wait until the named pod is as `holds` says, and return it."""

    def found(pods: list[Pod]) -> Pod | None:
        return next((one for one in pods if one["metadata"]["name"] == name and holds(one)), None)

    pod = namespace.until(found, "v1", "pods")
    assert pod is not None
    return pod


def phase(said: str) -> Callable[[Pod], bool]:
    return lambda pod: pod["status"]["phase"] == said


def terminated(pod: Pod) -> dict[str, Any]:
    ended: dict[str, Any] = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return ended


@pytest.fixture
def node(namespace: Namespace) -> str:
    return namespace.add_nodes(1)[0]


def test_a_job_runs_on_the_real_controller_and_scheduler_until_it_is_told_to_end(
    namespace: Namespace, node: str
) -> None:
    template = pod("ignored", node)["spec"] | {"nodeSelector": {namespace.label: "true"}}
    del template["nodeName"]
    template["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": template}}
    namespace.admin.create(job | {"spec": spec}, "jobs", namespace.name)
    namespace.until(lambda pods: [one["status"]["phase"] for one in pods] == ["Running"] * 2, "v1", "pods")
    for one in namespace.items("v1", "pods"):
        assert one["spec"]["nodeName"] == node
        namespace.play(one["metadata"]["name"], run_for="0s")
    namespace.until(lambda jobs: jobs[0]["status"].get("succeeded") == 2, "batch/v1", "jobs")


def test_pods_end_wait_and_are_evicted_as_they_are_told(namespace: Namespace, node: str) -> None:
    told = {
        "fails": {"CHAMBER_TEST_RUN_FOR": "0s", "CHAMBER_TEST_ENDS": "3"},
        "eats": {"CHAMBER_TEST_RUN_FOR": "0s", "CHAMBER_TEST_ENDS": "OOMKilled"},
        "leaves": {"CHAMBER_TEST_ENDS": "Evicted"},
        "waits": {"CHAMBER_TEST_WAITS": "ImagePullBackOff"},
    }
    for name, environment in told.items():
        namespace.admin.create(pod(name, node, environment), "pods", namespace.name)
    assert terminated(reaches(namespace, "fails", phase("Failed")))["exitCode"] == 3
    eaten = terminated(reaches(namespace, "eats", phase("Failed")))
    assert (eaten["exitCode"], eaten["reason"]) == (137, "OOMKilled")
    assert reaches(namespace, "leaves", phase("Failed"))["status"]["reason"] == "Evicted"
    waiting = reaches(namespace, "waits", lambda one: one["status"].get("containerStatuses"))
    state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (waiting["status"]["phase"], state["reason"]) == ("Pending", "ImagePullBackOff")
    namespace.play("waits", waits="")
    reaches(namespace, "waits", phase("Running"))


def test_a_pod_that_is_slow_to_stop_keeps_its_place_until_it_is_gone(namespace: Namespace, node: str) -> None:
    slow = pod("slow", node, {"CHAMBER_TEST_STOPS_IN": "60"}, grace_seconds=1)
    slow["metadata"]["finalizers"] = ["chamber.test/kept"]
    namespace.admin.create(slow, "pods", namespace.name)
    reaches(namespace, "slow", phase("Running"))
    namespace.admin.delete("v1", "pods", "slow", namespace.name)
    stopping = namespace.admin.get("v1", "pods", "slow", namespace.name)
    assert stopping["metadata"]["deletionGracePeriodSeconds"] == 1
    assert stopping["status"]["phase"] == "Running"
    assert terminated(reaches(namespace, "slow", phase("Failed")))["exitCode"] == 137, "grace was over"
    namespace.admin.merge("v1", "pods", "slow", {"metadata": {"finalizers": None}}, namespace.name)
    namespace.until(lambda pods: not pods, "v1", "pods")


def test_a_pod_goes_at_once_by_default_however_long_it_might_take(namespace: Namespace, node: str) -> None:
    quick = pod("quick", node, grace_seconds=3600)
    namespace.admin.create(quick, "pods", namespace.name)
    reaches(namespace, "quick", phase("Running"))
    namespace.admin.delete("v1", "pods", "quick", namespace.name)
    namespace.until(lambda pods: not pods, "v1", "pods")


def test_a_node_goes_and_comes_back_as_it_is_told(namespace: Namespace, node: str) -> None:
    def says(status: str) -> Callable[[list[Pod]], bool]:
        return lambda nodes: any(
            said["type"] == "Ready" and said["status"] == status
            for one in nodes
            if one["metadata"]["name"] == node
            for said in one["status"]["conditions"]
        )

    def tell(value: str | None) -> None:
        note = {"metadata": {"annotations": {"chamber.test/not-ready": value}}}
        namespace.admin.merge("v1", "nodes", node, note)

    tell("Unknown")
    namespace.admin.until(says("Unknown"), "v1", "nodes", labels=namespace.selector)
    tell(None)
    namespace.admin.until(says("True"), "v1", "nodes", labels=namespace.selector)


def test_a_control_plane_whose_owner_is_killed_does_not_stay_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rig.kubernetes", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=deployment.ROOT) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().decode() == f"export KUBECONFIG={tmp_path}/admin.kubeconfig\n"
        pids = [int(file.read_text()) for file in tmp_path.glob("*/pid")]
        assert len(pids) == 5
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        owner.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_help_starts_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rig.kubernetes", "--help"]
    said = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(deployment.ROOT)}, capture_output=True, check=True
    )
    assert b"usage: python -m rig.kubernetes" in said.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_a_test_made_is_gone_afterwards_whoever_holds_on_to_it(control_plane: Any) -> None:
    with another_namespace(control_plane) as made:
        (node,) = made.add_nodes(1)
        held = pod("held", node)
        held["metadata"]["finalizers"] = ["chamber.test/kept"]
        made.admin.create(held, "pods", made.name)
    with another_namespace(control_plane) as other:
        assert not other.admin.items("v1", "nodes", labels=made.selector)
        with pytest.raises(Refused, match="not found"):
            other.admin.get("v1", "pods", "held", made.name)
        left = other.admin.items("v1", "namespaces", labels=made.selector)
        assert {one["status"]["phase"] for one in left} <= {"Terminating"}
