"""The scheduler's small organisation, for what is counted of it."""

from scheduling.tests.conftest import _scheduler_without_memory, acme

__all__ = ["_scheduler_without_memory", "acme"]
