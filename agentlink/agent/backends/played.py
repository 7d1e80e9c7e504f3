"""What a simulated cluster makes of a workload: how long it takes to start, run and stop, and how it ends."""

import hashlib
import re
from uuid import UUID

from agentlink.protocol import Assignment

START_SECONDS = (0.2, 0.6)
STOP_SECONDS = (0.3, 2.0)
RUN_SECONDS = (30.0, 180.0)

_SLEEP = re.compile(r"\bsleep\s+(\d{1,9}(?:\.\d{1,6})?)")
_EXIT = re.compile(r"\bexit\s+(\d{1,3})\b")


def start_seconds(workload: UUID) -> float:
    """Return how long its pods are being created."""
    return draw(workload, "start", START_SECONDS)


def stop_seconds(workload: UUID, grace_seconds: int) -> float:
    """Return how much of the grace period its pods take when they are stopped."""
    return min(float(grace_seconds), draw(workload, "stop", STOP_SECONDS))


def run_seconds(assignment: Assignment) -> float:
    """Return how long it runs: as long as its command sleeps, else a time of its own within its time limit."""
    slept = [float(seconds) for seconds in _SLEEP.findall(" ".join(assignment.command))]
    if slept:
        return sum(slept)
    drawn = draw(assignment.workload, "run", RUN_SECONDS)
    return (
        drawn if assignment.time_limit_seconds is None else min(drawn, float(assignment.time_limit_seconds))
    )


def exit_code(assignment: Assignment) -> int:
    """Return with what it ends: as its command says, else 0."""
    codes = _EXIT.findall(" ".join(assignment.command))
    return int(codes[-1]) % 256 if codes else 0


def draw(workload: UUID, what: str, bounds: tuple[float, float]) -> float:
    """Return a number between the bounds that is always the same for the same workload."""
    digest = hashlib.sha256(workload.bytes + what.encode()).digest()
    low, high = bounds
    return low + (high - low) * int.from_bytes(digest[:8]) / 2**64
