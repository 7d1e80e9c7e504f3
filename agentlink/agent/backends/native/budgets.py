"""What keeps others in the cluster from taking pods away by their own choice, pure: a disruption budget, which `kubectl
drain` and every other eviction heeds, and annotations, which autoscalers heed.

Budgets stop no deletion of pods or nodes, and no failure of a node. A Job cannot be scaled by the API, so its budget
names the number of its pods. Pods of Chamber's own Jobs that have not begun are let go: nothing is lost by it. Of an
adopted Job those are kept that run and are not ready: their readiness is its people's. Pods that do not run yet are
evicted past any budget. Where another budget selects the pods Chamber makes none: Kubernetes evicts no pod that has
two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from agentlink.agent.backends.native import manifests
from agentlink.agent.backends.native.facts import CONTROLLER_UID, JobFacts
from agentlink.agent.backends.native.policies import Eviction
from agentlink.agent.kube.resources import BUDGETS, JsonObject
from agentlink.protocol import DesiredAttempt


class DisruptionKind(StrEnum):
    """Which workloads; `none` stands alone, for no others. `adopted`: Jobs that an eviction would end for good."""

    RESERVED = "reserved"
    GANGS = "gangs"
    SINGLE = "single"
    ADOPTED = "adopted"
    NONE = "none"


ANNOTATED = frozenset({DisruptionKind.RESERVED, DisruptionKind.GANGS})
USUAL = ANNOTATED | {DisruptionKind.ADOPTED}
DO_NOT_DISRUPT: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


@dataclass(frozen=True, slots=True)
class Disruption:
    """Which workloads have budgets, and which annotations. `single`: elastic ones of one pod."""

    budgets: frozenset[DisruptionKind] = USUAL
    annotated: frozenset[DisruptionKind] = ANNOTATED

    @classmethod
    def of(cls, budgets: Iterable[str] = (), annotated: Iterable[str] = ()) -> "Disruption":
        """Return what was asked for by words; the usual where nothing was. Raises `ValueError` for other words."""
        asked = [frozenset(DisruptionKind(word) for word in words) for words in (budgets, annotated)]
        return cls(asked[0] or USUAL, asked[1] or ANNOTATED)

    def annotations(self, assignment: DesiredAttempt) -> dict[str, str]:
        """Return the annotations of an assignment's pods."""
        return dict(DO_NOT_DISRUPT) if _kinds(assignment) & self.annotated else {}

    def has_budget(self, assignment: DesiredAttempt, job: JobFacts) -> bool:
        """Return whether a Job of an assignment has a budget."""
        ends = job.adopted and job.eviction is not Eviction.SPARED
        return bool((_kinds(assignment) | ({DisruptionKind.ADOPTED} if ends else set())) & self.budgets)


def _kinds(assignment: DesiredAttempt) -> frozenset[DisruptionKind]:
    found = {DisruptionKind.RESERVED} if assignment.reserved else set()
    if manifests.is_distributed(assignment):
        found.add(DisruptionKind.GANGS)
    return frozenset(found or {DisruptionKind.SINGLE})


def name_of(job: JobFacts) -> str:
    """Return the name of a Job's budget: by an adopted one's own name its people may have made one themselves."""
    return f"chamber-{job.uid}" if job.adopted else job.name


def selector(body: JsonObject, job: JobFacts) -> str:
    """Return the labels that select those of a Job's pods that a budget selects, as the API server reads them; "" where
    it selects none.
    """
    asked = body["spec"].get("selector")
    if asked is None:
        return ""
    parts = [f"{CONTROLLER_UID}={job.uid}"]
    parts += [f"{key}={value}" for key, value in (asked.get("matchLabels") or {}).items()]
    for rule in asked.get("matchExpressions") or ():
        key, values = rule["key"], ",".join(rule.get("values") or ())
        parts.append(_TERMS[rule["operator"]].format(key=key, values=values))
    return ",".join(parts)


_TERMS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


def budget(job: JobFacts, labels: Mapping[str, str]) -> JsonObject:
    """Return the budget of a Job's pods, which goes with the Job."""
    return {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.kind,
        "metadata": {
            "name": name_of(job),
            "labels": dict(labels),
            "ownerReferences": [manifests.owned_by(job.name, job.uid)],
        },
        "spec": {
            "minAvailable": len(job.plan.pods),
            "selector": {"matchLabels": {CONTROLLER_UID: job.uid}},
            "unhealthyPodEvictionPolicy": "IfHealthyBudget" if job.adopted else "AlwaysAllow",
        },
    }
