"""The objects that an attempt becomes: names, what a Job says, and how pods are tied and let go."""

import re
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from agentlink.agent.backends.native import gates, manifests
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.manifests import Wave
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import AssignedMount, AssignedShare, DesiredAttempt
from agentlink.tests.kube.made import assigned, at, attempt, job, pod
from agentlink.tests.kube.native import work

NAMES = DomainNames()
TWO = ContainerRequest(limits=(("nvidia.com/gpu", "2"),))
NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def made(assignment: DesiredAttempt, ask: ContainerRequest = TWO, **fields: Any) -> JsonObject:
    """Return the only Job of an assignment's pods."""
    wave = Wave(assignment, assignment.pods, "ns", **fields)
    (part,) = manifests.parts(wave, {each.index: ask for each in assignment.pods})
    return manifests.job(part, wave, NAMES, cluster="c")


def pod_spec(assignment: DesiredAttempt, ask: ContainerRequest = TWO, **fields: Any) -> JsonObject:
    found: JsonObject = made(assignment, ask, **fields)["spec"]["template"]["spec"]
    return found


def environment(assignment: DesiredAttempt, **fields: Any) -> dict[str, Any]:
    entries = pod_spec(assignment, **fields)["containers"][0]["env"]
    return {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in entries}


@pytest.mark.parametrize("slug", ["train", "a" * 60, "9-lives", "Under_score.dots", "---", "ünï"])
def test_names_are_legal_for_jobs_machines_and_services_and_end_in_the_attempt(slug: str) -> None:
    assignment = work(*assigned(0), slug=slug, number=2**31 - 1)
    name = manifests.base_name(assignment)
    assert NAME.fullmatch(name)
    assert len(f"{name}-999-99999-abcde") <= 63
    assert name.endswith(f"{2**31 - 1}-{assignment.attempt.hex[-8:]}")


def test_equal_pods_are_one_indexed_job_that_one_failure_ends() -> None:
    body = made(work(*assigned(2, 0, 1)))
    spec = body["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert (spec["backoffLimit"], spec["backoffLimitPerIndex"]) == (0, 0)
    assert spec["podReplacementPolicy"] == "Failed"
    assert "ttlSecondsAfterFinished" not in spec
    assert "activeDeadlineSeconds" not in spec
    assert body["metadata"]["finalizers"] == ["chamber.internal/report"]


def test_pods_that_ask_for_different_things_are_several_jobs_of_one_wave() -> None:
    assignment = work(*assigned(0, 1, 2))
    other = ContainerRequest(limits=(("nvidia.com/gpu.shared", "1"),))
    wave = Wave(assignment, assignment.pods, "ns", size=3)
    first, second = manifests.parts(wave, {0: TWO, 1: other, 2: TWO})
    assert [each.index for each in first.plan.pods] == [0, 2]
    assert [each.index for each in second.plan.pods] == [1]
    assert (second.name, second.master) == (f"{first.name}-1", f"{first.name}-0")
    assert {first.plan.size, second.plan.size} == {3}
    later = replace(wave, taken=2, number=1, master="there-0", pods=assigned(3))
    (third,) = manifests.parts(later, {3: TWO})
    assert (third.name, third.master, third.plan.wave) == (f"{first.name}-2", "there-0", 1)


def test_requests_are_limits_and_the_pod_is_bounded_and_gated() -> None:
    spec = pod_spec(work(*assigned(0), cpu_milli=1500, memory_mib=2048, grace_seconds=0))
    (container,) = spec["containers"]
    amounts = {"cpu": "1500m", "memory": "2048Mi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert spec["schedulingGates"] == [{"name": "chamber.internal/placed"}]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 1)
    assert spec["automountServiceAccountToken"] is False
    assert "subdomain" not in spec


def test_a_command_and_its_environment_are_run_as_they_were_written() -> None:
    spec = pod_spec(work(*assigned(0), command=("sh", "-c", "echo $$ $(HOME) $x"), environment={"A": "$(B)"}))
    (container,) = spec["containers"]
    assert container["command"] == ["sh", "-c", "echo $$$$ $$(HOME) $$x"]
    assert {"name": "A", "value": "$$(B)"} in container["env"]
    assert "command" not in pod_spec(work(*assigned(0), command=()))["containers"][0]


def test_a_distributed_workload_knows_where_its_pods_find_each_other() -> None:
    two = tuple(AssignedShare(index=index, share_milli=1000) for index in (0, 1))
    gang = work(*(each.model_copy(update={"devices": two}) for each in assigned(0, 1)))
    base = manifests.base_name(gang)
    found = environment(gang)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == (f"{base}-0.{base}", "29500")
    index = "metadata.labels['chamber.internal/pod']"
    assert (found["WORLD_SIZE"], found["RANK"], found["NODE_RANK"]) == ("2", index, index)
    assert (found["LOCAL_WORLD_SIZE"], found["LOCAL_RANK"]) == ("1", "0")
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"], found["PET_NODE_RANK"]) == ("2", "2", index)
    assert (found["PET_MASTER_ADDR"], found["PET_MASTER_PORT"]) == (f"{base}-0.{base}", "29500")
    assert "PET_RDZV_BACKEND" not in found
    assert pod_spec(gang)["subdomain"] == base
    assert environment(gang, master="other-3")["MASTER_ADDR"] == f"other-3.{base}"


def test_launchers_of_an_elastic_workload_are_told_between_which_bounds_its_pods_are() -> None:
    found = environment(work(*assigned(0, 1), least_pods=2, most_pods=4))
    assert (found["PET_NNODES"], found["WORLD_SIZE"]) == ("2:4", "2")
    assert (found["PET_RDZV_BACKEND"], found["PET_RDZV_ID"]) == ("c10d", "train")
    assert found["PET_RDZV_ENDPOINT"] == f"{found['MASTER_ADDR']}:{found['MASTER_PORT']}"


def test_jobs_and_pods_say_whose_they_are_and_what_their_people_say_of_them() -> None:
    mine = work(
        *assigned(0),
        name="BERT, large",
        owner="ada@example.org",
        job_class="training",
        labels={
            "cost-centre": "42",
            "empty": "",
            "app.kubernetes.io/managed-by": "me",
            "chamber.internal/team": "x",
        },
        annotations={"example.org/note": "Ask Ada.", "chamber.internal/plan": "mine"},
    )
    body = made(mine)
    for metadata in (body["metadata"], body["spec"]["template"]["metadata"]):
        labels, annotations = metadata["labels"], metadata["annotations"]
        assert {key: labels[f"app.kubernetes.io/{key}"] for key in ("name", "instance", "component", "part-of")} == {
            "name": "BERT-large", "instance": "train", "component": "training", "part-of": "chamber",
        }  # fmt: skip
        assert (labels["app.kubernetes.io/managed-by"], labels["chamber.internal/team"]) == ("chamber", "nlp")
        assert (labels["chamber.internal/owner"], labels["cost-centre"]) == ("ada-example.org", "42")
        assert labels["empty"] == ""
        assert (annotations["chamber.internal/title"], annotations["chamber.internal/owner"]) == (
            "BERT, large",
            "ada@example.org",
        )
        assert annotations["example.org/note"] == "Ask Ada."
    assert JobPlan.read(body["metadata"]["annotations"]["chamber.internal/plan"]) is not None


@pytest.mark.parametrize(
    ("fields", "size"),
    [({"memory_mib": 4096}, "2048Mi"), ({"memory_mib": 4096, "shm_mib": 1024}, "1024Mi"), ({}, None)],
)
def test_shared_memory_has_a_size_where_its_pod_has_memory(fields: dict[str, int], size: str | None) -> None:
    (volume,) = pod_spec(work(*assigned(0), **fields))["volumes"]
    assert volume["emptyDir"].get("sizeLimit") == size
    (mount,) = pod_spec(work(*assigned(0), **fields))["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/dev/shm"  # noqa: S108 - in the container


def test_scratch_is_disk_of_a_size_beside_shared_memory() -> None:
    spec = pod_spec(work(*assigned(0), scratch_mib=1024, working_dir="/workspace"))
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}} in spec["volumes"]
    (container,) = spec["containers"]
    assert {"name": "scratch", "mountPath": "/scratch"} in container["volumeMounts"]
    assert container["workingDir"] == "/workspace"
    assert {"name": "CHAMBER_SCRATCH", "value": "/scratch"} in container["env"]
    (plain,) = pod_spec(work(*assigned(0)))["containers"]
    assert "workingDir" not in plain


def test_a_pod_alone_has_no_service_unless_it_may_get_fellows() -> None:
    """Its torchrun starts a process on each of its GPUs, as in a gang; nothing says where others are."""
    devices = tuple(AssignedShare(index=index, share_milli=1000) for index in range(8))
    (whole,) = (each.model_copy(update={"devices": devices}) for each in assigned(0))
    found = environment(work(whole))
    assert {name: found[name] for name in found if not name.startswith("CHAMBER")} == {
        "PET_NPROC_PER_NODE": "8"
    }
    assert "MASTER_ADDR" in environment(work(*assigned(0), most_pods=4))


def test_pods_are_told_where_to_go_on_and_by_what_to_say_what_they_saved() -> None:
    assert (
        not {"CHAMBER_RESUMED_FROM", "CHAMBER_NOTES_URL", "CHAMBER_NOTES_TOKEN"}
        & environment(work(*assigned(0))).keys()
    )
    found = environment(
        work(*assigned(0), number=2, resumed_from=0, notes_url="https://x/", notes_token="cht_a")
    )
    assert found["CHAMBER_ATTEMPT"] == "2"
    assert found["CHAMBER_RESUMED_FROM"] == "0"
    assert (found["CHAMBER_NOTES_URL"], found["CHAMBER_NOTES_TOKEN"]) == ("https://x/", "cht_a")


def test_the_workload_may_replace_defaults_but_not_what_chamber_tells() -> None:
    gang = work(*assigned(0, 1), environment={"MASTER_PORT": "1", "CHAMBER_TEAM": "mine"})
    found = environment(gang)
    assert (found["MASTER_PORT"], found["CHAMBER_TEAM"]) == ("1", "nlp")
    names = [each["name"] for each in pod_spec(gang)["containers"][0]["env"]]
    assert len(names) == len(set(names))


def test_tolerations_are_those_of_the_plan_and_of_what_the_pod_asks_for() -> None:
    ask = ContainerRequest(limits=(("nvidia.com/mig-1g.10gb", "1"),))
    found = pod_spec(work(*assigned(0), tolerations=("a=b:NoSchedule", "c", "d=")), ask)["tolerations"]
    assert found == [
        {"key": "a", "operator": "Equal", "value": "b"},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "Equal", "value": ""},
        {"key": "amd.com/gpu", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "nvidia.com/mig-1g.10gb", "operator": "Exists"},
    ]


@pytest.mark.parametrize(
    ("text", "label"), [("nlp", "nlp"), ("-", ""), ("é team!", "team"), ("a" * 80, "a" * 63), ("x_", "x")]
)
def test_labels_hold_what_they_can(text: str, label: str) -> None:
    assert manifests.label(text) == label


def test_the_service_goes_with_its_job_and_picks_the_attempts_pods() -> None:
    plan = replace(job(0, 1).plan, service="train")
    body = manifests.service(plan, manifests.owned_by("train", "uid"), {"a": "b"}, NAMES)
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid"}
    ]
    assert body["spec"]["selector"] == {"chamber.internal/attempt": str(UUID(int=7))}
    assert body["spec"]["clusterIP"] == "None"


# Gates

GATED: dict[str, Any] = {"node": "", "gates": ("other", NAMES.gate)}


def ready(*things: Any) -> list[int]:
    return [slot.planned.index for slot in gates.ready(attempt(*things), NAMES)]


def test_pods_are_let_go_once_the_last_of_their_wave_was_made() -> None:
    first, second = pod(0, "Pending", **GATED), pod(1, "Pending", **GATED)
    assert ready(job(0, 1), first) == []
    assert ready(job(0, 1), first, second) == [0, 1]
    assert ready(job(0, 1), first, pod(1)) == [0]
    other = job(1, name="b", size=2)
    assert ready(job(0, size=2), first, other) == []
    assert ready(job(0, size=2), first, other, pod(0, "Pending", of="b", **GATED)) == [0, 1]


def test_waves_do_not_wait_for_each_other() -> None:
    more = job(1, name="more", wave=1)
    assert ready(job(0), pod(0), more, pod(0, "Pending", of="more", **GATED)) == [1]
    assert ready(job(0), pod(0, "Pending", **GATED), more) == [0]


@pytest.mark.parametrize("fields", [{"stopping": True}, {"deleting": True}, {"suspended": True}])
def test_nothing_is_let_go_of_what_is_ending(fields: dict[str, Any]) -> None:
    assert ready(job(0, **fields), pod(0, "Pending", **GATED)) == []
    assert ready(job(0), pod(0, "Pending", deleted_at=at(9), **GATED)) == []


def test_a_pod_is_tied_to_its_node_and_freed_of_its_own_gate_in_one_patch() -> None:
    patch = gates.lift(pod(0, "Pending", **GATED), assigned(5)[0], NAMES)
    assert patch == {
        "metadata": {
            "uid": "pod-train-0",
            "labels": {"chamber.internal/pod": "5"},
            "annotations": {"chamber.internal/devices": "0"},
        },
        "spec": {
            "schedulingGates": [{"name": "chamber.internal/placed", "$patch": "delete"}],
            "affinity": {
                "nodeAffinity": {gates.REQUIRED: {"nodeSelectorTerms": gates.tied(None, "n5")}},
            },
        },
    }


def test_an_affinity_is_narrowed_in_each_of_its_terms() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    rack = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}
    before = {"nodeAffinity": {gates.REQUIRED: {"nodeSelectorTerms": [zone, rack]}}}
    on_node = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert gates.tied(before, "n1") == [
        {**zone, "matchFields": [on_node]},
        {"matchFields": [*rack["matchFields"], on_node]},
    ]


def test_data_is_mounted_where_it_is_asked_and_told_by_variables() -> None:
    mounts = (
        AssignedMount(source="imagenet", path="/data", claim="imagenet-ro"),
        AssignedMount(source="out.1", path="/out", read_only=False, server="nfs", folder="/export"),
        AssignedMount(source="llama", address="s3://models/llama"),
    )
    spec = pod_spec(work(*assigned(0), mounts=mounts))
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["data-0"]["persistentVolumeClaim"] == {"claimName": "imagenet-ro", "readOnly": True}
    assert volumes["data-1"]["nfs"] == {"server": "nfs", "path": "/export", "readOnly": False}
    (container,) = spec["containers"]
    assert container["volumeMounts"][1:] == [
        {"name": "data-0", "mountPath": "/data", "readOnly": True},
        {"name": "data-1", "mountPath": "/out", "readOnly": False},
    ]
    found = {each["name"]: each.get("value") for each in container["env"]}
    assert (found["CHAMBER_DATA_IMAGENET"], found["CHAMBER_DATA_OUT_1"]) == ("/data", "/out")
    assert found["CHAMBER_DATA_LLAMA"] == "s3://models/llama"
