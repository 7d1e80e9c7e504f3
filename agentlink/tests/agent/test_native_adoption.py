"""What a Job asks for, why it cannot be adopted, and what beginning it changes, without a cluster."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from agentlink.agent.backends.native import adoption, manifests, policies
from agentlink.agent.backends.native.adopting import Adopter
from agentlink.agent.backends.native.adoption import describe, read_entry
from agentlink.agent.backends.native.budgets import Disruption, budget
from agentlink.agent.backends.native.budgets import selector as selector_of
from agentlink.agent.backends.native.devices import ContainerRequest
from agentlink.agent.backends.native.manifests import Wave, parts
from agentlink.agent.backends.native.marks import JobOrigin, Marks, digest
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.places import KeptNamespace, read_place, taken
from agentlink.agent.backends.native.plans import JobPlan
from agentlink.agent.backends.native.policies import Eviction
from agentlink.agent.kube.client import Kube
from agentlink.protocol import Adopted, AssignedPod, AssignedShare, NamespaceBinding
from agentlink.tests.kube.made import NOW, assigned
from agentlink.tests.kube.made import job as made_job
from agentlink.tests.kube.native import work

NAMES = DomainNames()
RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-*")
GPU = ("nvidia.com/gpu",)
SEVERAL_TYPES = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["H100", "A100"]}
                        ]
                    }
                ]
            }
        }
    }
}
Json = dict[str, Any]
IGNORED: Json = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
FAILS: Json = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}


def job(pod: Json | None = None, container: Json | None = None, **spec: Any) -> Json:
    limits = {"nvidia.com/gpu": "2", "cpu": "4", "memory": "1Gi"}
    main = {"name": "main", "image": "i:1", "resources": {"limits": limits, "requests": limits}}
    pod = {"restartPolicy": "Never", "containers": [main | (container or {})], **(pod or {})}
    labels = {NAMES.adopt: "true"}
    metadata = {
        "name": "train",
        "namespace": "nlp-jobs",
        "uid": "u1",
        "labels": labels,
        "resourceVersion": "7",
    }
    spec = {"suspend": True, "backoffLimit": 0, **spec, "template": {"metadata": {}, "spec": pod}}
    return {"metadata": metadata, "spec": spec, "status": {}}


def plan(attempt: UUID | None = None) -> JobPlan:
    pod = AssignedPod(index=0, node="n1", devices=(AssignedShare(index=0, share_milli=1000),))
    return JobPlan(workload=uuid4(), attempt=attempt or uuid4(), number=1, pods=(pod,))


@pytest.mark.parametrize(
    ("pod", "container", "field"),
    [
        ({"terminationGracePeriodSeconds": 2**63 - 1}, {}, "grace_seconds"),
        ({}, {"resources": {"limits": {"nvidia.com/gpu": str(2**63 - 1)}}}, "gpus"),
        ({"nodeSelector": {f"{'a' * 253}/{'b' * 63}": "c"}}, {}, "node_selector"),
    ],
)
def test_a_job_that_asks_for_what_no_message_can_say_is_answered(
    pod: Json, container: Json, field: str
) -> None:
    described = read_entry(job(pod, container), None, NAMES, resources=RESOURCES).described
    assert described is not None
    (problem,) = described.problems
    assert problem.startswith(f"What it says of {field}")
    assert described.uid == "u1"


def test_a_description_says_all_that_is_planned_by() -> None:
    tolerations = [
        {"key": "gpu", "operator": "Exists"},
        {"key": "team", "value": "nlp", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
    ]
    pod = {
        "nodeSelector": {"zone": "a"},
        "tolerations": tolerations,
        "terminationGracePeriodSeconds": 90,
        "serviceAccountName": "trainer",
        "volumes": [{"name": "a", "secret": {}}, {"name": "b"}, {"name": "c", "emptyDir": {}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    body = job(pod, {"command": ["python"], "args": ["x.py"]}, activeDeadlineSeconds=60, parallelism=3,
               completions=3, completionMode="Indexed")  # fmt: skip
    body["metadata"]["labels"][NAMES.priority] = "high"
    body["metadata"]["annotations"] = {NAMES.owner: "ada"}
    found = describe(body, NAMES, resources=RESOURCES)
    assert (found.pods, found.gpus, found.cpu_milli, found.memory_mib) == (3, 2, 4000, 1024)
    assert (found.command, found.node_selector, found.tolerations) == (
        ("python", "x.py"), {"zone": "a"}, ("gpu", "team=nlp"),
    )  # fmt: skip
    assert (found.time_limit_seconds, found.grace_seconds, found.priority, found.who) == (
        60,
        90,
        "high",
        "ada",
    )
    assert (found.service_account, found.volumes, found.problems) == ("trainer", ("emptyDir", "secret"), ())


def test_a_job_that_asks_for_one_slice_asks_for_it_by_its_type() -> None:
    for limits, asked in (
        ({"nvidia.com/mig-1g.10gb": "1"}, (1, ("mig-1g.10gb",), ())),
        ({"nvidia.com/mig-3g.40gb.me": "1", "cpu": "2"}, (1, ("mig-3g.40gb.me",), ())),
        ({"nvidia.com/gpu": "1"}, (1, (), ())),
    ):
        body = job(container={"resources": {"limits": limits}})
        told = describe(body, NAMES, resources=RESOURCES)
        assert (told.gpus, told.gpu_types, told.problems) == asked


def test_a_description_names_all_secrets_and_config_maps_that_its_containers_can_read() -> None:
    def both(kind: str) -> list[Json]:
        return [{"secretRef": {"name": f"s-{kind}"}}, {"configMapRef": {"name": f"c-{kind}"}}]

    keys = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s-key", "key": "k", "optional": True}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c-key", "key": "k"}}},
        {"name": "C", "value": "plain"},
        {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    projected = [
        {"secret": {"name": "s-projected"}},
        {"configMap": {"name": "c-projected"}},
        {"downwardAPI": {}},
    ]
    pod = {
        "initContainers": [{"name": "i", "envFrom": both("init")}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "s-volume"}},
            {"name": "b", "configMap": {"name": "c-volume"}},
            {"name": "c", "projected": {"sources": projected}},
            {"name": "d", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "s-driver"}}},
            {"name": "e", "emptyDir": {}},
        ],
    }
    found = describe(job(pod, {"env": keys, "envFrom": both("from")}), NAMES, resources=RESOURCES)
    named = ("from", "init", "key", "projected", "volume")
    assert found.secrets == tuple(sorted([*(f"s-{each}" for each in named), "s-driver"]))
    assert found.config_maps == tuple(f"c-{each}" for each in named)


def test_a_description_names_the_images_of_all_containers() -> None:
    pod = {"initContainers": [{"name": "i", "image": "init:1"}, {"name": "j", "image": "side:1"}]}
    body = job(pod)
    body["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "side:1"})
    found = describe(body, NAMES, resources=RESOURCES)
    assert found.images == (found.image, "side:1", "init:1")


def test_what_the_level_baseline_lets_pods_do_is_adopted() -> None:
    context = {
        "seccompProfile": {"type": "RuntimeDefault"},
        "procMount": "Default",
        "seLinuxOptions": {"level": "s0:c1", "type": "container_t"},
        "windowsOptions": {"hostProcess": False},
    }
    pod = {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}}
    described = describe(job(pod, {"securityContext": context}), NAMES, resources=RESOURCES)
    assert described.problems == ()


PROBLEMS: dict[str, tuple[Json, str]] = {
    "no pods": (job(parallelism=0), "It has no pods"),
    "several that are not Indexed": (job(parallelism=2, completions=2), "is not Indexed"),
    "more completions": (job(completions=9), "9 completions of 1 pod at once"),
    "retries": (job(backoffLimit=3), "backoffLimit 3"),
    "retries of an index": (job(backoffLimitPerIndex=1), "retries by itself"),
    "restarts": (job({"restartPolicy": "OnFailure"}), "restartPolicy: Never"),
    "another controller": (job(managedBy="kueue.x-k8s.io/multikueue"), "is run by kueue"),
    "no GPUs": (job(container={"resources": {}}), "asks for no GPUs"),
    "parts of GPUs": (
        job(container={"resources": {"limits": {"nvidia.com/mig-1g.10gb": "2"}}}),
        "It asks for 2 of nvidia.com/mig-1g.10gb in a pod; whole GPUs of one kind, or one MIG slice, can be planned "
        "for a pod of a Job. Give it one pod for each slice (parallelism).",
    ),
    "a replica": (
        job(container={"resources": {"limits": {"nvidia.com/mig-1g.10gb.shared": "1"}}}),
        "It asks for 1 of nvidia.com/mig-1g.10gb.shared in a pod; whole GPUs of one kind",
    ),
    "a slice and types of GPUs": (
        job(SEVERAL_TYPES, container={"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}),
        "It asks for a slice nvidia.com/mig-1g.10gb and requires one of several GPU types by its node affinity "
        "(H100, A100); require one by a nodeSelector.",
    ),
    "GPUs and parts of GPUs": (
        job(container={"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"}}}),
        "It asks for 1 of nvidia.com/gpu and 1 of nvidia.com/mig-1g.10gb in a pod",
    ),
    "claims": (job({"resourceClaims": [{"name": "x"}]}), "by resourceClaims"),
    "a node": (job({"nodeName": "n1"}), "It names its node (n1)"),
    "a scheduler": (job({"schedulerName": "volcano"}), "the scheduler volcano"),
    "a priority class of Kubernetes": (job({"priorityClassName": "system-node-critical"}), "for Kubernetes' own"),
    "gates": (job({"schedulingGates": [{"name": "mine"}]}), "scheduling gates of their own"),
    "an affinity": (
        job({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}),
        "requires a podAntiAffinity",
    ),
    "a spread": (job({"topologySpreadConstraints": [{"maxSkew": 1}]}), "requires a topology spread"),
    "the node's network": (job({"hostNetwork": True, "hostPID": True}), "hostNetwork, hostPID"),
    "a path": (job({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), "a path of the node (/)"),
    "privilege": (job(container={"securityContext": {"privileged": True}}), "main is privileged"),
    "an init container's": (
        job({"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]}), "i is privileged"
    ),
    "capabilities": (
        job(container={"securityContext": {"capabilities": {"add": ["SYS_ADMIN", "KILL"]}}}),
        "adds the capabilities SYS_ADMIN.",
    ),
    "no seccomp": (
        job({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        "Its pods run without seccomp (Unconfined)",
    ),
    "a container's own": (
        job(container={"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "container main runs without"
    ),
    "no AppArmor": (
        job(container={"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}), "without AppArmor"
    ),
    "an unmasked /proc": (
        job({"initContainers": [{"name": "i", "securityContext": {"procMount": "Unmasked"}}]}),
        "container i has the procMount Unmasked; only Default is adopted.",
    ),
    "kernel parameters": (
        job({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_syncookies"}]}}),
        "Its pods set kernel parameters that are not theirs alone: kernel.msgmax.",
    ),
    "another SELinux type": (
        job(container={"securityContext": {"seLinuxOptions": {"type": "spc_t", "role": "system_r"}}}),
        "container main runs with the SELinux role system_r, type spc_t; only a type may be set",
    ),
    "a process of a Windows node": (
        job({"securityContext": {"windowsOptions": {"hostProcess": True}}}), "as a process of the node (hostProcess)"
    ),
    "every taint": (job({"tolerations": [{"operator": "Exists"}]}), "It tolerates every taint; name the keys"),
    "every taint of an effect": (
        job({"tolerations": [{"key": "", "operator": "Exists", "effect": "NoExecute"}]}), "It tolerates every taint"
    ),
    "a port": (job(container={"ports": [{"hostPort": 80}]}), "takes a port of the node"),
    "retries by index": (job(backoffLimitPerIndex=2), "(backoffLimitPerIndex 2)"),
    "failures ignored": (
        job(podFailurePolicy={"rules": [IGNORED, {"action": "Ignore", "onExitCodes": {"values": [42]}}]}),
        "Rule 2 of its podFailurePolicy is Ignore on exit code 42; allowed are",
    ),
    "a condition ignored": (
        job(podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "Wet"}]}]}),
        "Rule 1 of its podFailurePolicy is Ignore on Wet; allowed are",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "does"),
    [
        ([], Eviction.ENDS),
        ([FAILS], Eviction.ENDS),
        ([IGNORED], Eviction.SPARED),
        ([IGNORED, FAILS], Eviction.SPARED),
        ([FAILS, IGNORED], Eviction.MAY_END),  # an evicted pod may have any exit code
        ([{**FAILS, "onExitCodes": {"operator": "In", "values": [42]}}, IGNORED], Eviction.MAY_END),
        ([{**IGNORED, "action": "FailJob"}, IGNORED], Eviction.ENDS),
        ([FAILS, {**IGNORED, "action": "Count"}, IGNORED], Eviction.ENDS),
        ([{"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue"}]}, IGNORED], Eviction.MAY_END),
        (
            [{**IGNORED, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}],
            Eviction.SPARED,
        ),
    ],
)
def test_the_first_rule_that_matches_says_what_an_eviction_does_to_a_job(
    rules: list[Json], does: Eviction
) -> None:
    body = job(podFailurePolicy={"rules": rules})
    entry = read_entry(body, None, NAMES, resources=RESOURCES)
    assert entry.described is not None
    assert (entry.described.problems, policies.eviction(body["spec"])) == ((), does)


@pytest.mark.parametrize("does", [Eviction.ENDS, Eviction.MAY_END])
@pytest.mark.parametrize("has_budget", [True, False])
def test_people_are_told_what_an_eviction_does_to_their_job(does: Eviction, *, has_budget: bool) -> None:
    said = policies.warning(does, has_budget=has_budget)
    assert len(said) <= 400
    assert ("pod may end" in said, "before the one that ignores" in said) == (does is Eviction.MAY_END,) * 2
    assert ("pod would end" in said, "No podFailurePolicy of it" in said) == (does is Eviction.ENDS,) * 2
    assert ("It has no PodDisruptionBudget." in said) is not has_budget
    assert ("`kubectl drain` waits" in said) is has_budget
    other = policies.warning(does, has_budget=True, other="theirs")
    assert "Your PodDisruptionBudget theirs selects its pods, so Chamber makes none" in other


def test_advice_names_a_section_of_the_docs() -> None:
    heading = policies.DOCUMENTED.partition('"')[2].rpartition('"')[0]
    docs = Path(__file__).parents[3] / "docs" / "operations.md"
    assert f"# {heading}\n" in docs.read_text()


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        (None, ""),
        ({}, "batch.kubernetes.io/controller-uid=uid-train"),
        (
            {
                "matchLabels": {"app": "a"},
                "matchExpressions": [
                    {"key": "b", "operator": "In", "values": ["1", "2"]},
                    {"key": "c", "operator": "NotIn", "values": ["3"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                ],
            },
            "batch.kubernetes.io/controller-uid=uid-train,app=a,b in (1,2),c notin (3),d,!e",
        ),
    ],
)
def test_a_budgets_selector_is_written_as_the_api_server_reads_it(
    selector: dict[str, Any] | None, labels: str
) -> None:
    body = {"metadata": {"name": "theirs"}, "spec": {} if selector is None else {"selector": selector}}
    assert selector_of(body, made_job(0)) == labels


@pytest.mark.parametrize(
    ("budgets", "reserved", "most_pods", "does", "has"),
    [
        (["reserved"], True, 1, Eviction.ENDS, True),
        (["reserved"], False, 1, Eviction.ENDS, False),
        (["gangs"], False, 2, Eviction.MAY_END, True),
        (["adopted"], False, 1, Eviction.MAY_END, True),
        (["adopted"], True, 1, Eviction.SPARED, False),
    ],
)
def test_which_adopted_job_has_a_budget_goes_by_the_job(
    budgets: list[str], does: Eviction, *, reserved: bool, most_pods: int, has: bool
) -> None:
    planned = work(*assigned(0), reserved=reserved, most_pods=most_pods)
    adopted = made_job(0, adopted=True, eviction=does)
    assert Disruption.of(budgets).has_budget(planned, adopted) is has


@pytest.mark.parametrize(("adopted", "policy"), [(True, "IfHealthyBudget"), (False, "AlwaysAllow")])
def test_a_pod_of_an_adopted_job_that_runs_and_is_not_ready_is_kept(*, adopted: bool, policy: str) -> None:
    spec = budget(made_job(0, 1, adopted=adopted), {})["spec"]
    assert (spec["minAvailable"], spec["unhealthyPodEvictionPolicy"]) == (2, policy)


@pytest.mark.parametrize(("body", "words"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_cannot_be_adopted_has_a_sentence(body: Json, words: str) -> None:
    (problem,) = describe(body, NAMES, resources=RESOURCES).problems
    assert words in problem


def test_a_job_that_is_as_it_should_be_has_no_problem() -> None:
    harmless = {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}},
        "schedulingGates": [{"name": NAMES.gate}],
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
    }
    assert describe(job(harmless), NAMES, resources=RESOURCES).problems == ()


def test_beginning_a_job_changes_nothing_of_what_it_asks_for_and_releasing_undoes_it() -> None:
    body, labels = job(), {NAMES.attempt: "x", NAMES.cluster: "east"}
    before = describe(body, NAMES, resources=RESOURCES)
    patch = adoption.started(
        body,
        plan(),
        NAMES,
        slug="train-x",
        labels=labels,
        resources=GPU,
        mark=lambda text: f"m:{text}",
        at=NOW,
    )
    begun = merged(body, patch)
    assert begun["spec"]["template"]["spec"]["tolerations"] == [
        {"key": key, "operator": "Exists"} for key in ("amd.com/gpu", "nvidia.com/gpu")
    ]
    assert (begun["spec"]["suspend"], patch["metadata"]["resourceVersion"]) == (False, "7")
    assert begun["spec"]["template"]["spec"]["schedulingGates"] == [{"name": NAMES.gate}]
    annotations = {NAMES.slug: "train-x"}
    assert begun["spec"]["template"]["metadata"] == {"labels": labels, "annotations": annotations}
    assert begun["metadata"]["annotations"][NAMES.mark].startswith("m:{")
    assert begun["metadata"]["annotations"][NAMES.begun] == NOW.isoformat()
    begun["metadata"]["annotations"][NAMES.let_go] = "0000000a"  # of this attempt only
    assert describe(begun, NAMES, resources=RESOURCES) == before
    again = adoption.started(
        begun, plan(), NAMES, slug="train-x", labels=labels, resources=GPU, mark=str, at=NOW
    )
    assert merged(begun, again)["spec"]["template"]["spec"] == begun["spec"]["template"]["spec"]
    assert NAMES.let_go not in merged(begun, again)["metadata"]["annotations"]
    released = merged(merged(begun, adoption.ungated(begun, NAMES)), adoption.released(begun, NAMES))
    assert released["metadata"]["labels"] == {NAMES.adopt: "true"}
    assert (released["metadata"]["annotations"], released["spec"]["template"]["metadata"]["labels"]) == (
        {},
        {},
    )
    assert released["spec"]["template"]["metadata"]["annotations"] == {}
    assert released["spec"]["template"]["spec"] == job()["spec"]["template"]["spec"]


def test_tolerations_are_added_for_taints_of_gpus_only_and_only_where_they_lack() -> None:
    own = [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "amd.com/gpu", "operator": "Equal", "value": "mi300"},
        {"key": "team", "value": "nlp"},
    ]
    body = job({"tolerations": own})
    body["metadata"]["annotations"] = {"note": "mine"}
    resources = ("example.com/gpu",)
    patch = adoption.started(body, plan(), NAMES, slug="x", labels={}, resources=resources, mark=str, at=NOW)
    begun = merged(body, patch)
    added = [{"key": key, "operator": "Exists"} for key in ("amd.com/gpu", "example.com/gpu")]
    assert begun["spec"]["template"]["spec"]["tolerations"] == [*own, *added]
    back = merged(merged(begun, adoption.ungated(begun, NAMES)), adoption.released(begun, NAMES))
    assert back["spec"]["template"]["spec"]["tolerations"] == own
    assert back["metadata"]["annotations"] == {"note": "mine"}
    ended = {**begun, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert merged(ended, adoption.released(ended, NAMES))["metadata"]["annotations"] == {"note": "mine"}
    everything = job({"tolerations": [{"operator": "Exists"}]})
    patch = adoption.started(everything, plan(), NAMES, slug="x", labels={}, resources=GPU, mark=str, at=NOW)
    assert merged(everything, patch)["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("toleration", "taint", "lets_in"),
    [
        ({"key": "team", "value": "nlp"}, "team=nlp:NoSchedule", True),
        ({"key": "team", "value": "nlp"}, "team=cv:NoSchedule", False),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, "team=nlp:NoExecute", False),
        ({"key": "team", "operator": "Exists"}, "team:NoExecute", True),
        ({"operator": "Exists"}, "a.b/c=d:NoExecute", True),
        ({"key": "team", "operator": "Exists", "tolerationSeconds": 9}, "team=nlp:NoExecute", False),
    ],
)
def test_a_toleration_lets_in_as_kubernetes_has_it(toleration: Json, taint: str, *, lets_in: bool) -> None:
    assert adoption.tolerates({"tolerations": [toleration]}, taint) is lets_in
    assert not adoption.tolerates({}, taint)


def test_a_revision_is_of_what_people_wrote_and_of_the_word_to_try_anew() -> None:
    body = job({"tolerations": [{"key": "team", "operator": "Exists"}]})
    before = adoption.revision(body, NAMES)
    labels = {NAMES.attempt: "x"}
    patch = adoption.started(body, plan(), NAMES, slug="x", labels=labels, resources=GPU, mark=str, at=NOW)
    assert adoption.revision(merged(body, patch), NAMES) == before
    changes: list[Json] = [
        {"metadata": {"annotations": {NAMES.retry: "1"}}},
        {"spec": {"template": {"metadata": {"annotations": {"mine": "1"}}}}},
        {"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}},
        {"spec": {"activeDeadlineSeconds": 5}},
    ]
    assert len({before, *(adoption.revision(merged(body, change), NAMES) for change in changes)}) == 5
    ours: Json = {"metadata": {"annotations": {NAMES.slug: "y"}}, "spec": {"suspend": False}}
    assert adoption.revision(merged(body, ours), NAMES) == before


def requiring(*terms: Json, **pod: Any) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return job({"affinity": {"nodeAffinity": required}, **pod})


def term(*expressions: tuple[str, str, list[str]]) -> Json:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": values} if values else {})}
            for key, operator, values in expressions
        ]
    }


PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("body", "labels", "types"),
    [
        (requiring(term(("zone", "In", ["a"]))), {"zone": "a"}, ()),
        (
            requiring(term(("zone", "In", ["a", "a"])), nodeSelector={"zone": "a", "x": "y"}),
            {"zone": "a", "x": "y"},
            (),
        ),
        (
            requiring(term((PRODUCT, "In", ["H100", "H200"]), ("rack", "In", ["r1"]))),
            {"rack": "r1"},
            ("H100", "H200"),
        ),
        (requiring(term((PRODUCT, "In", ["H100"]))), {PRODUCT: "H100"}, ()),
    ],
)
def test_required_affinity_that_chamber_can_express_is_planned(
    body: Json, labels: dict[str, str], types: tuple[str, ...]
) -> None:
    found = describe(body, NAMES, resources=RESOURCES)
    assert (found.node_selector, found.gpu_types, found.problems) == (labels, types, ())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            requiring(term(("zone", "In", ["a", "b"]))),
            "It requires zone In a, b by its node affinity. Chamber can plan",
        ),
        (requiring(term(("zone", "Exists", []))), "zone Exists by its"),
        (
            requiring(term(("disk", "NotIn", ["hdd"]))),
            "Chamber can plan nodeSelector: {disk: VALUE}, In with",
        ),
        (requiring(term(("zone", "NotIn", ["a"]))), "zone NotIn a"),
        (requiring(term(("n", "Gt", ["3"]))), "n Gt 3"),
        (requiring(term(("a", "In", ["1"])), term(("b", "In", ["2"]))), "any of 2 nodeSelectorTerms"),
        (requiring(term(("a", "In", ["1"])), nodeSelector={"a": "2"}), "a to be 2 and 1, which no node is"),
        (requiring({}), "an empty term"),
        (
            requiring({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
            "the field metadata.name In: n1 by its node affinity. Chamber can plan nodeSelector: "
            "{kubernetes.io/hostname: VALUE}",
        ),
    ],
)
def test_required_affinity_that_chamber_cannot_express_is_refused_with_what_it_can(
    body: Json, words: str
) -> None:
    (problem,) = describe(body, NAMES, resources=RESOURCES).problems
    assert words in problem


def merged(body: Json, patch: Json) -> Json:
    """Return what a merge patch makes of an object (RFC 7396)."""
    result = dict(body)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), value)
        else:
            result[key] = value
    return result


def test_only_who_asks_is_described_and_only_who_bears_a_foreign_mark_pretends() -> None:
    asks, quiet = job(), job()
    quiet["metadata"]["labels"] = {NAMES.attempt: str(uuid4()), NAMES.adopt: "yes"}
    entry = read_entry(asks, None, NAMES, resources=RESOURCES)
    assert (entry.described is not None, entry.pretends, entry.gpus_milli) == (True, False, 2000)
    entry = read_entry(quiet, None, NAMES, resources=RESOURCES)
    assert (entry.described, entry.pretends) == (None, True)
    assert not read_entry(quiet, JobOrigin.OWN, NAMES, resources=RESOURCES).pretends
    assert read_entry(asks, JobOrigin.OWN, NAMES, resources=RESOURCES).described is None
    asks["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    assert read_entry(asks, None, NAMES, resources=RESOURCES).described is None


def test_a_mark_is_of_one_job_and_of_one_plan() -> None:
    marks, asked = Marks(b"k" * 32), plan()
    body = job()
    text = asked.as_text()
    own = marks.made({**body, "metadata": body["metadata"] | {"annotations": {NAMES.plan: text}}})
    adopted = marks.adopted(body, text)
    for mark, kind in (
        (own, JobOrigin.OWN),
        (adopted, JobOrigin.ADOPTED),
        ("", None),
        ("ä", None),
        (own[:-1], None),
    ):
        body["metadata"]["annotations"] = {NAMES.plan: text, NAMES.mark: mark}
        assert marks.kind(body) is kind
    for key, value in (("name", "other"), ("namespace", "vision-jobs"), ("uid", "u2")):
        body["metadata"] |= {"annotations": {NAMES.plan: text, NAMES.mark: adopted}}
        assert marks.kind({**body, "metadata": body["metadata"] | {key: value}}) is None
    other = plan(asked.attempt).as_text()
    for annotations in ({NAMES.mark: adopted}, {NAMES.plan: other, NAMES.mark: adopted}, None):
        assert marks.kind({**body, "metadata": body["metadata"] | {"annotations": annotations}}) is None
    body["metadata"]["annotations"] = {NAMES.plan: text, NAMES.mark: adopted}
    assert Marks(b"x" * 32).kind(body) is None


def test_a_mark_of_a_job_that_was_made_is_of_what_its_pods_run() -> None:
    made = Wave(assignment := work(*assigned(0)), assignment.pods, "nlp-jobs")
    (part,) = parts(made, {0: ContainerRequest(limits=(("nvidia.com/gpu", "1"),))})
    body = manifests.job(part, made, NAMES, cluster="c")
    body["metadata"]["uid"] = "u1"
    marks = Marks(b"k" * 32)
    body["metadata"]["annotations"][NAMES.mark] = marks.made(body)
    other = {**body, "metadata": body["metadata"] | {"uid": "u2"}}
    assert marks.kind(body) is marks.kind(other) is JobOrigin.OWN
    pod = body["spec"]["template"]["spec"]
    filled_in = pod | {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    assert digest(filled_in) == digest(pod)
    more = {"name": "sidecar", "image": "x"}
    for change in (
        {"initContainers": [more]},
        {"containers": [*pod["containers"], more]},
        {"nodeName": "n1"},
    ):
        template = {"spec": pod | change}
        assert marks.kind({**body, "spec": body["spec"] | {"template": template}}) is None


def test_a_namespace_is_kept_where_it_was_made_for_the_binding_or_handed_over() -> None:
    bound = NamespaceBinding(id=uuid4(), namespace="nlp-jobs", team="nlp")

    def why(**labels: str) -> str:
        body = {"metadata": {"name": "nlp-jobs", "labels": {getattr(NAMES, k): v for k, v in labels.items()}}}
        return taken(read_place(body, NAMES), bound, NAMES)

    assert why(binding=str(bound.id), team="renamed") == why(team="nlp") == ""
    assert "is there and is not labelled" in why()
    assert "is labelled as team vision's" in why(team="vision", binding=str(uuid4()))
    assert "kubectl label --overwrite namespace nlp-jobs chamber.internal/team=nlp" in why()
    assert (
        taken(KeptNamespace("nlp", "", "", going=True), bound, NAMES) == "It is being deleted in the cluster."
    )


def test_the_slices_of_a_job_without_chamber_are_not_counted_as_gpus() -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "2"}
    asks = job(container={"resources": {"limits": limits}}, parallelism=2, completions=2)
    assert read_entry(asks, None, NAMES, resources=RESOURCES).gpus_milli == 2 * (1000 + 2 * 143)


async def test_a_jobs_event_says_where_it_stands_when_it_is_tried_again() -> None:
    said: list[Json] = []

    async def create(_: object, body: Json, __: str) -> None:
        said.append(body)

    adopter = Adopter(
        cast(Kube, SimpleNamespace(create=create)), NAMES, cast(Any, None), cast(Any, None), "c"
    )
    await adopter.tell_refused(Adopted(namespace="nlp-jobs", name="train", uid="u1"), "train-1", "No. " * 400)
    (event,) = said
    assert event["message"].startswith("No. No. ")
    # Not that it is tried again: the server may have put it on hold by then.
    assert event["message"].endswith("Chamber suspends it. When it is tried again: chamber why train-1")
    assert len(event["message"]) < 1000


async def test_the_event_of_a_job_whose_node_is_drained_is_no_warning_and_says_that_it_starts_again() -> None:
    said: list[Json] = []

    async def create(_: object, body: Json, __: str) -> None:
        said.append(body)

    adopter = Adopter(
        cast(Kube, SimpleNamespace(create=create)), NAMES, cast(Any, None), cast(Any, None), "c"
    )
    there = Adopted(namespace="nlp-jobs", name="train", uid="u1")
    await adopter.tell_displaced(there, "train-1", "Pod 0 on n0 was evicted, as when its node is drained.")
    (event,) = said
    assert (event["type"], event["reason"], event["message"]) == (
        "Normal",
        "Displaced",
        "Pod 0 on n0 was evicted, as when its node is drained. Chamber suspends it and starts it again when its turn "
        "comes; no retry is spent. When that is: chamber why train-1",
    )


async def test_the_event_of_a_job_that_has_ended_says_how_to_run_it_again_and_not_that_it_is_suspended() -> (
    None
):
    said: list[Json] = []

    async def create(_: object, body: Json, __: str) -> None:
        said.append(body)

    adopter = Adopter(
        cast(Kube, SimpleNamespace(create=create)), NAMES, cast(Any, None), cast(Any, None), "c"
    )
    ended = "The Job nlp-jobs/train has ended and cannot run again."
    await adopter.tell_ended(Adopted(namespace="nlp-jobs", name="train", uid="u1"), ended)
    (event,) = said
    assert (event["reason"], event["message"]) == (
        "Ended",
        f"{ended} To run it again, delete it first: kubectl delete job train -n nlp-jobs. Then create it again, "
        "suspended.",
    )
