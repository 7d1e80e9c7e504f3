"""Placement: what pods request, and what is free on nodes for them (section 5)."""
