"""The engine from the outside: a described organisation in, a plan out, no database.

`loader` reads the file, `output` and `table` show the plan, `check` compares it with what the file expects,
and `command` is `chamber simulate`.
"""
