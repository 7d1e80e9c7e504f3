"""What the scheduler keeps: its clock, its cycles, who rings and whose turn it is, and samples of use."""

from scheduling.models.cycle import Clock, Cycle
from scheduling.models.turn import Bell, Turn
from scheduling.models.usage import UsageSample

__all__ = ["Bell", "Clock", "Cycle", "Turn", "UsageSample"]
