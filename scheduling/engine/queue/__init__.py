"""The queue: which workloads are candidates, and in which order their turns come (section 4)."""
