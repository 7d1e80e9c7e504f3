"""Chamber: shares GPU clusters by a tree of teams and explains each decision."""

__version__ = "0.1.0"
