"""The engine over time: an organisation whose workloads arrive, run and end while cycle follows cycle.

`outcome` says what becomes of workloads when a plan is carried out, `group` holds those that one decision is about,
`clock` brings arrivals, ends and cycles in their order, `tally` and `summary` count what happened, and `command` is
`chamber simulate`. Nothing here reads a clock or a database.
"""
