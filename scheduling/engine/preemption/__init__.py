"""Preemption: which placed workloads a preemptor may have as victims (section 7)."""
