"""Clusters and what they hold: nodes, devices, and which pod of which attempt lies where."""

from agentlink.models.cluster import AgentToken, Backend, Cluster
from agentlink.models.node import Device, Node
from agentlink.models.placement import Assignment, Hold, Placement

__all__ = ["AgentToken", "Assignment", "Backend", "Cluster", "Device", "Hold", "Node", "Placement"]
