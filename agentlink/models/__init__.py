"""Clusters and what they hold: nodes, devices, and which pod of which attempt lies where."""

from agentlink.models.cluster import AgentToken, BackendKind, Cluster
from agentlink.models.data import DataLocation
from agentlink.models.node import Device, DeviceSlicing, Node
from agentlink.models.placement import Assignment, Hold, Placement
from agentlink.models.podlog import PodLog
from agentlink.models.space import AdoptedJob, BoundNamespace
from agentlink.models.use import GpuUse, GpuUseSample

__all__ = [
    "AdoptedJob",
    "AgentToken",
    "Assignment",
    "BackendKind",
    "BoundNamespace",
    "Cluster",
    "DataLocation",
    "Device",
    "DeviceSlicing",
    "GpuUse",
    "GpuUseSample",
    "Hold",
    "Node",
    "Placement",
    "PodLog",
]
