"""Pods with GPUs that Chamber did not make, in bound namespaces: its quota there counts them, also unbound ones."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentlink.agent.backends.native.adoption import milli_of
from agentlink.agent.backends.native.devices import is_gpu
from agentlink.agent.backends.native.facts import PodFacts
from agentlink.protocol.profiles import GPU_MILLI

MOST_NAMED = 5


class ForeignPod(NamedTuple):
    """A pod with the uid of its controller, empty where it has none, and what it asks for in milli-GPUs."""

    name: str
    owner: str
    gpus_milli: int


def read(pods: Iterable[PodFacts], resources: Sequence[str]) -> list[ForeignPod]:
    """Return those of the pods that ask for GPUs, by their names."""
    found = []
    for pod in pods:
        gpus = Counter({name: count for name, count in pod.requests if is_gpu(name, resources) and count})
        if gpus:
            found.append(ForeignPod(pod.name, pod.owner, milli_of(gpus)))
    return sorted(found)


def named(pods: Sequence[ForeignPod]) -> str:
    """Return the first of the pods by their names, with their GPUs, and how many more there are."""
    told = [f"{pod.name}: {_gpus(pod.gpus_milli)}" for pod in pods[:MOST_NAMED]]
    more = len(pods) - MOST_NAMED
    return ", ".join([*told, f"and {more} more"] if more > 0 else told)


def _gpus(milli: int) -> str:
    return "1 GPU" if milli == GPU_MILLI else f"{milli / GPU_MILLI:g} GPUs"
