"""Quantities as Kubernetes writes them ("500m", "16Gi"), and what a pod asks of its node."""

import math
from decimal import Decimal
from functools import lru_cache

from kubernetes.utils.quantity import parse_quantity

from agentlink.agent.kube.resources import JsonObject

MIB = 1024 * 1024


@lru_cache(maxsize=4096)
def number(quantity: str) -> Decimal:
    """Return a quantity as a number; raise `ValueError` where it is none."""
    return Decimal(parse_quantity(quantity))


def milli(quantity: str) -> int:
    """Return a quantity in thousandths, rounded up."""
    return math.ceil(number(quantity) * 1000)


def mebibytes(quantity: str) -> int:
    """Return a quantity of bytes in MiB, rounded down."""
    return int(number(quantity) // MIB)


def asked(spec: JsonObject) -> tuple[int, int]:
    """Return the CPU (milli) and memory (MiB, rounded up) that a pod's spec asks for.

    All containers and sidecars together, or what an init container needs beside the sidecars begun before it; the
    pod's own figures count before those of its containers.
    """
    return math.ceil(_asked(spec, "cpu") * 1000), math.ceil(_asked(spec, "memory") / MIB)


def _asked(spec: JsonObject, name: str) -> Decimal:
    overhead = number(spec.get("overhead", {}).get(name, "0"))
    whole = spec.get("resources", {}).get("requests", {}).get(name)
    if whole is not None:
        return number(whole) + overhead
    together = sum((_of(container, name) for container in spec.get("containers", ())), Decimal())
    beside = most = Decimal()
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            beside += _of(container, name)
            most = max(most, beside)
        else:
            most = max(most, beside + _of(container, name))
    return max(together + beside, most) + overhead


def _of(container: JsonObject, name: str) -> Decimal:
    return number(container.get("resources", {}).get("requests", {}).get(name, "0"))
