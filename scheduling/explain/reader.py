"""What one reader is told: a reason of the engine in words, with the names that this person may read.

The engine names workloads by their ids. The reader gets names of those this person may see, and of others only what
everybody may know of a workload in the pool: team, class, priority.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from chamber.words import clock_time
from scheduling import engine
from scheduling.explain.explanation import Explanation
from scheduling.explain.plan_text import PlanNames
from scheduling.reading.translate import moment
from teams.permissions import Permission, may
from workloads.models import Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


OUT_UNTIL_THEN = frozenset({engine.ReasonCode.NOT_BEFORE, engine.ReasonCode.PEAK_HOURS})
"""Why a workload joins the queue at a time that is known."""


class Reader:
    """A person who reads explanations: what the ids of a cycle are called, and which names this person may read."""

    def __init__(self, user: "User | AnonymousUser", names: PlanNames | None) -> None:
        self._user, self._names = user, names
        self._called: dict[str, str] = {}
        self._now = timezone.now()

    def may_see(self, workload: Workload) -> bool:
        """Return whether the workload's own name is for this reader."""
        return workload.owner_id == self._user.pk or may(self._user, Permission.VIEW_WORKLOADS, workload.team)

    def explanation(self, wait: engine.Wait) -> Explanation:
        """Return why a workload waits, with position and ETA; ids of workloads still stand for their names."""
        told = self.of_reason(wait.reason, position=wait.position, eta=wait.eta)
        until = told.starts_at
        if wait.reason.code in OUT_UNTIL_THEN and until is not None and until > self._now:
            return replace(told, eta=f"not before {clock_time(until)}")
        if wait.reason.code is not engine.ReasonCode.BACKING_OFF or until is None:
            return told
        # The seconds in the engine's sentence are those of its cycle, which may be a minute old.
        if until <= self._now:
            return replace(
                told, sentence="Its last attempt ended early; its pause is over.", eta="any moment"
            )
        due = clock_time(until)
        return replace(
            told,
            sentence=f"Its last attempt ended early; the next one is due at {due}.",
            eta=f"not before {due}",
        )

    def of_reason(
        self, reason: engine.Reason, *, position: int | None = None, eta: engine.Eta | None = None
    ) -> Explanation:
        """Return a reason of the engine; ids of workloads still stand for their names."""
        return Explanation(
            code=reason.code.value,
            sentence=reason.message,
            kind=reason.kind.value,
            next_step=reason.next_step,
            level=self._names.level(reason.level) if self._names else "",
            team=self._names.teams.get(reason.team or "", "") if self._names else "",
            position=position,
            eta=eta_in_words(eta, self._now) if eta else "",
            starts_at=moment(eta.earliest) if eta else None,
            starts_by=moment(eta.latest) if eta else None,
            asked_milli=reason.asked_milli,
            available_milli=reason.available_milli,
            limit_milli=reason.limit_milli,
        )

    def learn(self, sentences: Iterable[str]) -> None:
        """Look up what the workloads named in the sentences are called for this reader (1 query, none without any)."""
        ids = {found for sentence in sentences for found in _ID.findall(sentence)}
        if not ids:
            return
        named = Workload.objects.filter(pk__in=ids).select_related("team")
        self._called |= {str(row.pk): called(row, self._user) for row in named}

    def read(self, sentence: str) -> str:
        """Return the sentence with names that this reader may read in place of ids."""
        return _ID.sub(lambda found: self._called.get(found[0], "another workload"), sentence)

    def told(self, explanation: Explanation) -> Explanation:
        """Return the explanation with names that this reader may read."""
        if not any(_ID.search(text) for text in explanation.sentences):
            return explanation
        sentence, eta = (self.read(text) for text in explanation.sentences)
        return replace(explanation, sentence=sentence, eta=eta)


def called(workload: Workload, user: "User | AnonymousUser") -> str:
    """Return the workload's slug where the user may see it, else what anybody may know of it."""
    if may(user, Permission.VIEW_WORKLOADS, workload.team):
        return workload.slug
    kind = "a reserved" if workload.is_reserved else "an elastic"
    return f"{kind} workload of {workload.team.name} (priority {workload.priority})"


def eta_in_words(eta: engine.Eta, now: datetime) -> str:
    """Return when a workload starts: `in about 40 min, at 12:40 UTC`, `in 20 min to 2 h`, or not known and why."""
    earliest, latest = moment(eta.earliest), moment(eta.latest)
    if earliest is None:
        return f"not known: {eta.why[:1].lower()}{eta.why[1:]}" if eta.why else "not known"
    soonest = _length(earliest - now)
    if latest is None:
        return f"in about {soonest} at the earliest" if soonest else "any moment at the earliest"
    if not (until := _length(latest - now)):
        return "any moment"
    if latest - earliest < timedelta(minutes=1):
        return f"in about {until}, at {latest:%H:%M} UTC"
    return f"in {soonest} to {until}" if soonest else f"within about {until}"


def _length(ahead: timedelta) -> str:
    """Return how long it is in its largest unit; empty for less than a minute."""
    minutes = ahead.total_seconds() / 60
    for unit, size in (("d", 1440), ("h", 60)):
        if minutes >= 2 * size:
            return f"{round(minutes / size)} {unit}"
    return f"{round(minutes)} min" if minutes >= 1 else ""
