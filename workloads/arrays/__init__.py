"""Arrays: many workloads that are submitted as one, and what is done to them together."""
