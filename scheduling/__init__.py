"""Snapshot, decide, apply: who runs, where, and who yields."""
