"""What comes of a snapshot when the engine has its way for some cycles. Pure.

One cycle alone misleads: who is preempted joins the queue in the next one, may preempt in turn or find a place
elsewhere, and what a victim leaves over goes to others. After a cycle without victims nothing more follows.
"""

from dataclasses import dataclass

from scheduling import engine
from scheduling.cycle.fingerprint import whole
from scheduling.engine import Changes, State, decide
from scheduling.simulation.outcome import carried_out

MOST_CYCLES = 5
LARGE = 20_000
"""From so many workloads on, two cycles have to do: the one that preempts, and the one in which victims come back."""
CYCLES_OF_LARGE = 2


@dataclass(frozen=True, slots=True)
class Future:
    """The plans of cycles in a row; `settled` where nothing more follows after the last one."""

    plans: tuple[engine.Plan, ...]
    settled: bool


class Oracle:
    """Tells futures of snapshots that have most in common: what is known of one serves for the next."""

    def __init__(self, snapshot: engine.Snapshot) -> None:
        self._at, self._state = snapshot, State.of(snapshot)

    def future(self, snapshot: engine.Snapshot, now: int) -> Future:
        """Return what the next cycles decide, each on what the one before has left, all at the same moment."""
        most = CYCLES_OF_LARGE if len(snapshot.workloads) > LARGE else MOST_CYCLES
        plans: list[engine.Plan] = []
        while True:
            plan = self._decide(snapshot, now)
            settled = not (plan.preemptions or plan.shrinks)
            over = settled or len(plans) + 1 == most
            # Of those between, only the decisions are looked at: nobody waits for their reasons and figures.
            plans.append(plan if plans and not over else whole(plan))
            if over:
                return Future(tuple(plans), settled)
            snapshot = carried_out(snapshot, plan, now)

    def _decide(self, snapshot: engine.Snapshot, now: int) -> engine.Plan:
        if snapshot is not self._at:
            try:
                self._state.apply(Changes.between(self._at, snapshot))
            except (
                Exception
            ):  # What failed half-way is of no use; made anew, it either works or fails for good.
                self._state = State.of(snapshot)
            self._at = snapshot
        return decide(self._state, now)
