"""What a Job's own settings make of a pod that the cluster takes away, pure.

The Job controller counts an evicted pod as a failure, and ends a Job for good that allows none. A `podFailurePolicy`
whose first rule ignores pods with the condition DisruptionTarget has it make another pod instead, once the first has
ended. That one waits behind Chamber's gate, which every pod of the Job's template has, and is not let go: the attempt
is displaced, and the Job suspended.
"""

from collections.abc import Iterator

from agentlink.agent.kube.resources import JsonObject

DISRUPTED = "DisruptionTarget"
IGNORE = "Ignore"
ENDING = frozenset({"FailJob", "Count"})
"""Actions that end a Job that allows no failure, as it ends without a rule."""
ALLOWED = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"


def spares_evicted(spec: JsonObject) -> bool:
    """Return whether a Job goes on when a pod of it is evicted: the first rule that matches a pod is the one that
    counts, and others may match an evicted pod by its exit code.
    """
    rules = _rules(spec)
    return bool(rules) and _ignores_disruption(rules[0])


def warning(*, has_budget: bool) -> str:
    """Return what is told of an adopted Job that an eviction would end, with how that is avoided."""
    waits = (
        "A PodDisruptionBudget of Chamber's has `kubectl drain` wait meanwhile."
        if has_budget
        else "No PodDisruptionBudget of Chamber's keeps `kubectl drain` from that: the agent's setting "
        "--disruption-budgets lacks `adopted`."
    )
    return (
        "An eviction of a pod would end this Job for good: it allows no failure (backoffLimit 0), and no "
        f"rule of a podFailurePolicy ignores evictions. {waits} Have nodes drained by the annotations "
        "chamber.internal/drain-elastic-at and chamber.internal/drain-reserved-at: Chamber then suspends the Job "
        "first, and runs it elsewhere. For a Job to outlive evictions, make the first rule of its podFailurePolicy "
        f"{ALLOWED}."
    )


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
    conditions = rule.get("onPodConditions") or ()
    met = [each.get("type") == DISRUPTED and each.get("status", "True") == "True" for each in conditions]
    return rule.get("action") == IGNORE and bool(met) and all(met) and not rule.get("onExitCodes")
