"""What the scheduler keeps: its clock, its cycles, and samples of use."""

from scheduling.models.cycle import Clock, Cycle
from scheduling.models.usage import UsageSample

__all__ = ["Clock", "Cycle", "UsageSample"]
