"""One cycle of all pools: the rows read, the queues taken, the plan."""
