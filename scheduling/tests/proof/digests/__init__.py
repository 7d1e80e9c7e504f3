"""Digests of plans: what shows that a change of the engine changes no plan. See ``__main__`` for the command."""
