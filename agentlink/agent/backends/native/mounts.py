"""What pods mount of data: volumes of claims and NFS, and what they are told of each, pure."""

import re

from agentlink.agent.kube.resources import JsonObject
from agentlink.protocol import AssignedMount, DesiredAttempt

PREFIX = "CHAMBER_DATA_"
_UNFIT = re.compile(r"[^A-Z0-9]+")


def volumes(assignment: DesiredAttempt) -> list[JsonObject]:
    """Return the volumes of an attempt's pods."""
    return [{"name": f"data-{place}", **_volume(each)} for place, each in _mounted(assignment)]


def mounts(assignment: DesiredAttempt) -> list[JsonObject]:
    """Return where a pod has them."""
    return [
        {"name": f"data-{place}", "mountPath": each.path, "readOnly": each.read_only}
        for place, each in _mounted(assignment)
    ]


def environment(assignment: DesiredAttempt) -> dict[str, str | JsonObject]:
    """Return by which variables pods are told where each is: its path, or of what is not mounted its address."""
    return {
        f"{PREFIX}{_UNFIT.sub('_', each.source.upper())}": each.path or each.address
        for each in assignment.mounts
    }


def _mounted(assignment: DesiredAttempt) -> list[tuple[int, AssignedMount]]:
    return [(place, each) for place, each in enumerate(assignment.mounts) if each.claim or each.server]


def _volume(mount: AssignedMount) -> JsonObject:
    if mount.claim:
        return {"persistentVolumeClaim": {"claimName": mount.claim, "readOnly": mount.read_only}}
    return {"nfs": {"server": mount.server, "path": mount.folder, "readOnly": mount.read_only}}
