"""What goes into the engine and comes out of it: rows of a snapshot, rows of a plan, and their units.

Frozen and hashable: a snapshot can be kept, compared and replayed.

Times are integer milliseconds since the epoch, durations integer milliseconds, GPUs integer milli-GPUs (1 GPU is
1000), memory MiB, CPU milli-cores. Ids are strings, unique in their kind; the id is the last key of every order.
``None`` means "no limit" in a limit and "unknown" in a measurement.
"""
