"""Data sources: what workloads of a team, and of those below it, mount by name; which cluster has which lies above."""
