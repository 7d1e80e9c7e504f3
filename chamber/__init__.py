"""Chamber: shares GPU clusters by a tree of teams and explains each decision."""

__version__ = "0.2.0"
"""The one place where the version stands: `pyproject.toml` takes it from here, and the chart is held to it by a test."""
