"""What a Job's own settings make of a pod that the cluster takes away, pure.

The Job controller counts an evicted pod as a failure, and ends a Job for good that allows none. A `podFailurePolicy`
whose first rule ignores pods with the condition DisruptionTarget has it make another pod instead, once the first has
ended. That one waits behind Chamber's gate, which every pod of the Job's template has, and is not let go: the attempt
is displaced, and the Job suspended.
"""

from collections.abc import Iterator
from enum import StrEnum

from agentlink.agent.kube.resources import JsonObject

DISRUPTED = "DisruptionTarget"
IGNORE = "Ignore"
ENDING = frozenset({"FailJob", "Count"})
"""Actions that end a Job that allows no failure, as it ends without a rule."""
DRAIN = "chamber.internal/drain-elastic-at"
DOCUMENTED = 'docs/operations.md, "Maintenance, lost nodes, and registries that are away".'
ALLOWED = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"


class Eviction(StrEnum):
    """What an eviction of a pod does to a Job that allows no failure."""

    ENDS = "ends"
    MAY_END = "may-end"
    SPARED = "spared"


def eviction(spec: JsonObject) -> Eviction:
    """Return what an eviction does: the first rule that matches a pod is the one that counts, and rules before the one
    that ignores evictions may match an evicted pod by its exit code, or by another condition.
    """
    found = Eviction.SPARED
    for rule in _rules(spec):
        if _ignores_disruption(rule):
            return found
        if _matches_disruption(rule):
            return Eviction.ENDS
        found = Eviction.MAY_END
    return Eviction.ENDS


def warning(does: Eviction, *, has_budget: bool, other: str = "") -> str:
    """Return what is told of an adopted Job that an eviction ends, or may end, with how that is avoided. `other`: the
    budget that selects its pods, where that is not Chamber's.
    """
    may, why = "would", "No podFailurePolicy of it ignores evictions."
    if does is Eviction.MAY_END:
        may, why = "may", "A rule of its podFailurePolicy may match before the one that ignores evictions."
    waits = "`kubectl drain` waits while its pods run." if has_budget else "It has no PodDisruptionBudget."
    if other:
        waits = (
            f"Your PodDisruptionBudget {other} selects its pods, so Chamber makes none: "
            "no pod is evicted that has two."
        )
    return (
        f"An eviction of a pod {may} end this Job for good: it allows no failure (backoffLimit 0). {why} {waits} "
        f"To move it to another node, annotate its node with {DRAIN}=now. More: {DOCUMENTED}"
    )


def how_to_run_again(does: Eviction, namespace: str, name: str) -> str:
    """Return what to do about a Job that an evicted or deleted pod ends, or may end."""
    ends = "That may end the Job" if does is Eviction.MAY_END else "That ends the Job"
    return f"{ends}, which allows no failure (backoffLimit 0). {to_run_again(namespace, name)}"


def to_run_again(namespace: str, name: str) -> str:
    """Return what to do about a Job that has ended."""
    delete = f"kubectl delete job {name} -n {namespace}"
    return f"To run it again, delete it first: {delete}. Then create it again, suspended."


def problems(spec: JsonObject) -> Iterator[str]:
    """Yield a sentence for each rule that would have a Job run a pod again after a failure of its own."""
    for number, rule in enumerate(_rules(spec), 1):
        action = rule.get("action")
        if action in ENDING or _ignores_disruption(rule):
            continue
        conditions = [str(each.get("type")) for each in rule.get("onPodConditions") or ()]
        codes = (rule.get("onExitCodes") or {}).get("values") or ()
        met = [*conditions, *(f"exit code {code}" for code in codes)]
        on = f" on {', '.join(met)[:200]}" if met else ""
        yield (
            f"Rule {number} of its podFailurePolicy is {action}{on}; allowed are {ALLOWED}, FailJob and Count, for "
            "retries are not planned."
        )


def _rules(spec: JsonObject) -> list[JsonObject]:
    return list((spec.get("podFailurePolicy") or {}).get("rules") or ())


def _ignores_disruption(rule: JsonObject) -> bool:
    met = _disruptions(rule)
    return rule.get("action") == IGNORE and bool(met) and all(met) and not rule.get("onExitCodes")


def _matches_disruption(rule: JsonObject) -> bool:
    """Return whether every evicted pod matches a rule: one of its conditions is enough."""
    return any(_disruptions(rule))


def _disruptions(rule: JsonObject) -> list[bool]:
    """Return of each condition of a rule whether it is that of an evicted pod."""
    conditions = rule.get("onPodConditions") or ()
    return [each.get("type") == DISRUPTED and each.get("status", "True") == "True" for each in conditions]
