"""Backfill: the start reservation of the first blocked workload, and what may pass it (section 6)."""
