"""Indexes and short cuts that make the engine fast in large pools. No rule stands here (docs/acceleration.md)."""
