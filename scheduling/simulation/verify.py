"""`--verify`: the independent checker reads each plan and what it was made for."""

from scheduling.checker import check
from scheduling.engine import Plan, Snapshot
from scheduling.scenario.output import time_text

MOST_SENTENCES = 100


class CheckerVerdict:
    """What the checker found; `plans` are how many it has seen."""

    def __init__(self) -> None:
        self.plans = 0
        self._broken = 0
        self._sentences: list[str] = []

    def look(self, snapshot: Snapshot, plan: Plan, now: int) -> None:
        """Check one plan."""
        self.plans += 1
        for violation in check(snapshot, plan, now):
            self._broken += 1
            if len(self._sentences) < MOST_SENTENCES:
                rows = f" ({', '.join(violation.rows)})" if violation.rows else ""
                self._sentences.append(f"{time_text(now)}: {violation.rule}: {violation.message}{rows}")

    def well(self) -> str:
        """Return the sentence for no findings at all."""
        return f"no rule is broken in {self.plans:,} {'plan' if self.plans == 1 else 'plans'}"

    def sentences(self) -> list[str]:
        """Return a sentence for each broken rule, the first hundred of them; none where all is well."""
        more = self._broken - len(self._sentences)
        return [*self._sentences, *([f"and {more:,} more"] if more else [])]
