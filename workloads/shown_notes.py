"""What is shown of an attempt's notes: how far it is, when it ends at this pace, what it loses if it is stopped now."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from chamber.notes import MILLION
from workloads.models import Attempt, AttemptNotes

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_MILLIONTHS = 1000
"""Progress from which a pace can be told."""


@dataclass(frozen=True, slots=True)
class ShownNotes:
    """What an attempt said, as pages, API and command line show it.

    `ends_at` is the end at the pace so far; `unsaved_since` from when work would be lost if it were stopped now. Both
    are None where it does not run, or that is not known.
    """

    percent: float | None
    progress_at: datetime | None
    ends_at: datetime | None
    checkpointed_at: datetime | None
    step: int | None
    checkpoints: int
    unsaved_since: datetime | None
    links: "Mapping[str, str]"
    refused: int


def shown_notes(attempt: Attempt | None, now: datetime) -> ShownNotes | None:
    """Return what an attempt said, which is read along with it (`notes`); None where it never said anything."""
    stored: AttemptNotes | None = getattr(attempt, "notes", None)
    if attempt is None or stored is None:
        return None
    millionths = stored.progress_millionths
    return ShownNotes(
        percent=None if millionths is None else millionths * 100 / MILLION,
        progress_at=stored.progress_at,
        ends_at=_ends_at(attempt, stored, now),
        checkpointed_at=attempt.checkpointed_at,
        step=stored.step,
        checkpoints=stored.checkpoints,
        unsaved_since=unsaved_since(attempt),
        links=stored.links,
        refused=stored.refused,
    )


def unsaved_since(attempt: Attempt | None) -> datetime | None:
    """Return from when the work of a running attempt is in no checkpoint; None where it does not run."""
    if attempt is None or attempt.running_at is None or attempt.ended_at is not None:
        return None
    return max(attempt.running_at, attempt.checkpointed_at or attempt.running_at)


def _ends_at(attempt: Attempt, stored: AttemptNotes, now: datetime) -> datetime | None:
    """Return when it is at 1 if it goes on as from its first progress to its last; None where that is over."""
    at, since = stored.progress_at, stored.first_progress_at
    millionths, first = stored.progress_millionths, stored.first_progress_millionths
    if at is None or since is None or millionths is None or first is None or attempt.ended_at is not None:
        return None
    done = millionths - first
    if done < LEAST_MILLIONTHS or at <= since:
        return None
    ends_at = at + (at - since) * ((MILLION - millionths) / done)
    return ends_at if ends_at > now else None
