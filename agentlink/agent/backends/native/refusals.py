"""What a cluster says when it does not take a Job or a pod, sorted by what can be done about it, pure.

Jobs are refused to the agent by the API server, pods to the Jobs' controller, which repeats the API server's words in
an Event: both are read here. What is not known by its words is only `refused`.
"""

import re

from agentlink.agent.kube.errors import KubeError, Throttled
from agentlink.agent.kube.quantities import number

QUOTA = "chamber-plan"
"""The name of the agent's own ResourceQuota in a bound namespace."""
LONGEST = 600
"""Characters of the cluster's words that are told."""

NOT_CREATED = "not-created"
QUOTA_EXCEEDED = "quota-exceeded"
QUOTA_TOO_SMALL = "quota-too-small"
PLAN_QUOTA = "plan-quota"
"""The quota that only the plan can fill counts what the plan knows nothing of, or has not been raised yet."""
WEBHOOK_UNREACHABLE = "webhook-unreachable"
CLUSTER_BUSY = "cluster-busy"

_CODES = (
    ("pod-security", re.compile(r"violates PodSecurity ")),
    (PLAN_QUOTA, re.compile(rf"exceeded quota: {QUOTA},")),
    (QUOTA_EXCEEDED, re.compile(r"exceeded quota: ")),
    (QUOTA_TOO_SMALL, re.compile(r"failed quota: .*must specify ")),
    (WEBHOOK_UNREACHABLE, re.compile(r"failed calling webhook |failed to call webhook|conversion webhook ")),
    ("admission-denied", re.compile(r"admission webhook .* denied the request|ValidatingAdmissionPolicy ")),
    (
        "limit-range",
        re.compile(r"(maximum|minimum) \S+ usage per \w+ is |limit to request ratio per "),
    ),
    ("rights-missing", re.compile(r"User \".*\" cannot |is forbidden: cannot set ")),
)
"""The codes of refusals by the words of the API server, the first that is found."""
_COMBINED = re.compile(r"^\(combined from similar events\): ")
"""What Kubernetes puts before the words of an event that stands for many."""
_ENDS = re.compile(r"(?<=\.) ")
"""Where one sentence of the cluster's ends and another begins."""
_BUSY = re.compile(r"the server is currently unable|request timed out|[Tt]oo many requests|etcdserver: ")
_AMOUNTS = re.compile(r"requested: (?P<requested>.*), used: (?P<used>.*), limited: (?P<limited>.*)")


def code_of(words: str) -> str:
    """Return the code of a refusal by the API server's words; `refused` where they are of no known kind."""
    line = " ".join(words.split())
    found = next((code for code, pattern in _CODES if pattern.search(line)), "")
    if found == QUOTA_EXCEEDED and _can_never_hold(line):
        return QUOTA_TOO_SMALL
    return found or (CLUSTER_BUSY if _BUSY.search(line) else "refused")


def _can_never_hold(line: str) -> bool:
    """Return whether a quota is smaller than what was asked for, whatever is in use of it."""
    told = _AMOUNTS.search(line)
    if told is None:
        return False
    requested, limited = _amounts(told["requested"]), _amounts(told["limited"])
    return any(amount > limited[name] for name, amount in requested.items() if name in limited)


def _amounts(text: str) -> dict[str, float]:
    pairs = (part.rpartition("=") for part in text.split(","))
    found = {}
    for name, _, amount in pairs:
        try:
            found[name.strip()] = float(number(amount.strip(" .")))
        except ValueError:
            continue
    return found


def passing_code(error: KubeError) -> str:
    """Return the code of a failure that the API server answered with and that may pass by itself; "" for any other."""
    if isinstance(error, Throttled):
        return CLUSTER_BUSY
    found = code_of(error.message)
    if found == PLAN_QUOTA:
        return found
    if error.status < 500:  # no answer at all, or a refusal that stays
        return ""
    return found if found in (WEBHOOK_UNREACHABLE, QUOTA_EXCEEDED) else CLUSTER_BUSY


def plan_quota(text: str, foreign: str = "") -> str:
    """Return what it means that the agent's own quota refuses what is planned, with the cluster's words. `foreign`:
    which pods there are that Chamber did not make.
    """
    who = (
        f"that Chamber did not make ({foreign})"
        if foreign
        else "that Chamber did not make, or that are not gone yet"
    )
    return f"Chamber's own quota {QUOTA} is used up by pods in the namespace {who}: {sentence(text)}"


def sentence(text: str) -> str:
    """Return the cluster's words in one line that ends as a sentence."""
    line = one_line(text)
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
    line = line.rstrip(" .:;,")
    return f"{line}." if line else "the cluster does not say why."


def one_line(text: str) -> str:
    """Return the cluster's words in one line, without what it says twice.

    Of a missing claim the cluster's scheduler says `persistentvolumeclaim "x" not found. not found`: first why no node
    will do, and then, in its words for any missing object, why none makes way.
    """
    words = _COMBINED.sub("", " ".join(text.replace("\x00", "").split()))
    told: list[str] = []
    for part in _ENDS.split(words):
        if not (told and told[-1].rstrip(" .").lower().endswith(part.rstrip(" .").lower())):
            told.append(part)
    return " ".join(told)
