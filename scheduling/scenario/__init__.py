"""Organisations described in files: a file in, a snapshot and a plan out, no database.

`loader` reads the file and its trace, `output` and `table` show the plan, and `check` compares it with what the
file expects. `chamber simulate` itself is `scheduling.simulation.command`.
"""
