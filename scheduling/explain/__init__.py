"""What people are told of a plan: why a workload waits, what each team has, since when nothing is known."""
