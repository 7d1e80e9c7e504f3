"""Chamber: shares GPU clusters by a tree of teams and explains each decision."""

__version__ = "0.2.0"
"""The one place where it stands: `pyproject.toml` takes it from here, and a test holds the chart to it."""
