"""Figures of a running Chamber, by `make bench`; not tests. Each prints JSON with the shape of its work."""
