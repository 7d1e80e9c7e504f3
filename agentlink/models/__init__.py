"""Clusters and what they hold: nodes, devices, and which pod of which attempt lies where."""

from agentlink.models.cluster import AgentToken, Backend, Cluster
from agentlink.models.node import Device, Node, Slicing
from agentlink.models.placement import Assignment, Hold, Placement
from agentlink.models.podlog import PodLog
from agentlink.models.space import AdoptedJob, BoundNamespace
from agentlink.models.use import GpuUse, GpuUseSample

__all__ = [
    "AdoptedJob",
    "AgentToken",
    "Assignment",
    "Backend",
    "BoundNamespace",
    "Cluster",
    "Device",
    "GpuUse",
    "GpuUseSample",
    "Hold",
    "Node",
    "Placement",
    "PodLog",
    "Slicing",
]
