"""The planted faults: for each the rule that it breaks, a world in which that shows, and the plant."""

from scheduling.tests.proof.faults.places import PLACES
from scheduling.tests.proof.faults.quotas import QUOTAS
from scheduling.tests.proof.faults.reasons import REASONS
from scheduling.tests.proof.faults.times import TIMES
from scheduling.tests.proof.faults.turns import TURNS
from scheduling.tests.proof.faults.victims import VICTIMS
from scheduling.tests.proof.faults.worlds import Fault

FAULTS = (*PLACES, *QUOTAS, *TURNS, *VICTIMS, *REASONS, *TIMES)

__all__ = ["FAULTS", "Fault"]
