"""One cycle: each pool's queue from its head, scaling up, the plan."""
