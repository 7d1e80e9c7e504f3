"""Clusters, nodes and devices, and the link to their agents."""
