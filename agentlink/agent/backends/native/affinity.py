"""Required node affinity of a Job, pure: what of it Chamber can plan by, and what to ask for instead of the rest.

Chamber plans by labels that have one value, and by types of GPUs of which any will do. So `In` with one value is a
label, and `In` with several values of the label with the GPUs' product names their types; all of one term.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentlink.agent.backends.native.gates import REQUIRED
from agentlink.agent.kube.resources import JsonObject

PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
"""Labels of nodes whose values are types of GPUs."""
OF_FIELD = "the field "
MOST_TYPES = 20
MOST_SHOWN = 200
SOME_LABEL = "LABEL"
"""Stands for a label's key where what is asked for names none."""
HOSTNAME = "kubernetes.io/hostname"
"""The label that says of a node what its field `metadata.name` does, as a rule."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What a pod requires of its node: labels by key, types of GPUs of which any will do, and what cannot be planned,
    as sentences.
    """

    labels: dict[str, str]
    gpu_types: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def demands(pod: JsonObject) -> Demands:
    """Return what a pod's node selector and required node affinity ask of its node."""
    labels = {str(key): str(value) for key, value in (pod.get("nodeSelector") or {}).items()}
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = required.get("nodeSelectorTerms") or ()
    if len(terms) > 1:
        return Demands(labels, problems=(_cannot(f"any of {len(terms)} nodeSelectorTerms"),))
    types: tuple[str, ...] = ()
    problems: list[str] = []
    if any(not (term.get("matchExpressions") or term.get("matchFields")) for term in terms):
        problems.append("Its node affinity has an empty term, which no node meets; take it out.")
    for key, operator, values in _expressions(terms):
        if operator != "In" or not values:
            problems.append(_cannot(f"{key} {operator} {', '.join(values)}".rstrip(), key))
        elif len(values) == 1:
            if labels.setdefault(key, values[0]) != values[0]:
                problems.append(f"It requires {key} to be {labels[key]} and {values[0]}, which no node is.")
        elif key in PRODUCTS and len(values) <= MOST_TYPES and not types:
            types = values
        else:
            problems.append(_cannot(f"{key} In {', '.join(values)}", key))
    return Demands(labels, types, tuple(problems))


def _expressions(terms: Iterable[JsonObject]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield key, operator and values (each once) of what the terms require; of fields of the node, as no label."""
    for term in terms:
        for each in term.get("matchExpressions") or ():
            yield each["key"], each["operator"], tuple(dict.fromkeys(each.get("values") or ()))
        for each in term.get("matchFields") or ():
            yield f"{OF_FIELD}{each['key']}", f"{each['operator']}:", tuple(each.get("values") or ())


def _cannot(asked: str, key: str = SOME_LABEL) -> str:
    key = HOSTNAME if key.startswith(OF_FIELD) else key
    return (
        f"It requires {asked[:MOST_SHOWN]} by its node affinity. Chamber can plan nodeSelector: {{{key}: VALUE}}, In "
        f"with one value, or In with several values of {PRODUCTS[0]}."
    )
