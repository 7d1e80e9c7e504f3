"""Reading the tables: one picture of what a cycle looks at, made of what changed since the last."""
