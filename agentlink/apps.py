"""Clusters, nodes and devices, and the link to their agents."""

from django.apps import AppConfig


class AgentlinkConfig(AppConfig):
    """Name and label of the app."""

    name = "agentlink"
