"""What a truth's check finds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TruthViolation:
    """A truth (its number in the list of operations) that does not hold, as a sentence with the rows that prove it."""

    truth: int
    sentence: str
    rows: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"Truth {self.truth}: {self.sentence}", *(f"    {row}" for row in self.rows)))
