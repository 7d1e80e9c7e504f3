"""The agent's planning, pure: what the server desires and what the cluster has go in, instructions come out.

Rules, in this order:

1. Before the full desired set that answers the latest hello nothing is done; what answers an earlier one is ignored.
2. An attempt that is not desired has its pods stopped.
3. Pods of an attempt are created once it is let go, at most once: never for one that was ever reported on, or had pods
   before, or is over, or is lower than another that was desired; and not while another of its workload has pods.
4. A desired attempt with fewer or more pods than it should have is grown or shrunk.
5. Each attempt that is desired, or to be stopped, is reported when what is seen of it changes or what it should have,
   with a sequence that goes on from the server's. A report stands until it is acknowledged.
6. When a report that frees the devices is acknowledged, the cluster's record is forgotten.

A server whose database was restored knows less than the agent: its full set counts whatever its generation, what it
has not heard is reported again, also how attempts ended of which the cluster has nothing any more, as far as the agent
remembers; and attempts that it does not know are stopped.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from agentlink.agent.backends.base import Observation
from agentlink.protocol import (
    ENDED,
    LIVING,
    Ack,
    AssignedPod,
    Desired,
    DesiredAttempt,
    Error,
    ErrorCode,
    PodReport,
    PodState,
    Report,
    ReportedPhase,
    StopNotice,
    StopOrder,
)

MOST_REMEMBERED = 20_000
"""Attempts of which the agent remembers, beyond what the cluster and the server tell, that they had pods."""

MOST_LAST_REPORTS = 5_000
"""Attempts whose last report the agent remembers after the server took it: a restored database knows nothing of it."""

OVER = ENDED | {ReportedPhase.GONE}


@dataclass(frozen=True, slots=True)
class Create:
    """Create these pods of the attempt."""

    assignment: DesiredAttempt
    pods: tuple[AssignedPod, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop some of an attempt's pods, or all (None)."""

    attempt: UUID
    pods: frozenset[int] | None
    notice: StopNotice | None = None
    """What all of them are told before it."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What to do now: first stop, then create, then forget, then report."""

    stops: tuple[Stop, ...] = ()
    creates: tuple[Create, ...] = ()
    forgets: tuple[UUID, ...] = ()
    reports: tuple[Report, ...] = ()


@dataclass(slots=True)
class _Known:
    """What the agent remembers of one attempt while the server or the cluster still tells of it."""

    workload: UUID
    number: int
    wanted: DesiredAttempt | None = None
    stopping: bool = False
    """The server waits to hear that it is gone."""
    notice: StopNotice | None = None
    """What its pods are to be told before they are stopped."""
    seen: Observation | None = None
    made: set[int] = field(default_factory=set)
    """Pods that were asked for or seen: none is made twice."""
    awaited: dict[int, str] = field(default_factory=dict)
    """Pods that were asked for and not seen yet, with their nodes."""
    stopped: set[int] = field(default_factory=set)
    told_to_stop: bool = False
    has_run: bool = False
    """It had pods, or was refused: it is not created again."""
    sequence: int = 0
    report: Report | None = None
    reported_for: tuple[AssignedPod, ...] | None = None
    """The pods that it should have had when the report was made."""
    acknowledged: bool = True

    @property
    def living(self) -> set[int]:
        """Return the pods that may have devices."""
        pods = self.seen.pods if self.seen is not None else ()
        return {pod.index for pod in pods if pod.state in LIVING} | self.awaited.keys()

    @property
    def over(self) -> bool:
        """Return whether it ended in the cluster, or was there once and is not any more."""
        if self.seen is not None:
            return self.seen.phase in OVER
        return (self.has_run or self.sequence > 0) and not self.awaited

    @property
    def spoken_of(self) -> bool:
        """Return whether the server wants it to run, or waits to hear that it is gone."""
        return self.wanted is not None or self.stopping

    @property
    def freed_and_told(self) -> bool:
        """Return whether the server has the report after which it asks nothing more."""
        return self.report is not None and self.report.frees_devices and self.acknowledged


class Core:
    """One agent's mind. It holds nothing that it could not learn again from the server and the cluster."""

    def __init__(self) -> None:
        self.generation = 0
        self._known: dict[UUID, _Known] = {}
        self._of_workload: dict[UUID, set[UUID]] = {}
        self._highest: dict[UUID, int] = {}
        self._ran: OrderedDict[UUID, None] = OrderedDict()
        self._last: OrderedDict[UUID, Report] = OrderedDict()
        self._dirty: set[UUID] = set()
        self._parts: list[Desired] = []
        self._connection: UUID | None = None
        self._awaits_full = True
        self._has_looked = False
        self._expected_anew = False

    @property
    def works_by(self) -> int:
        """Return the generation that instructions follow; 0 while a full set is awaited."""
        return 0 if self._awaits_full else self.generation

    # Events

    def connected(self, connection: UUID) -> None:
        """Begin a conversation by a hello: nothing but its full set, and what follows that, counts from now on."""
        self._connection = connection
        self._awaits_full = True
        self._parts = []

    def desire(self, message: Desired) -> bool:
        """Take in a part of what is desired; False where something before it is missing: then hello is to be said."""
        if message.connection != self._connection or self._is_old(message):
            return True
        if self._parts and not self._same_set(message):
            self._parts = []
        if message.part != len(self._parts):
            return message.part < len(self._parts)  # a second time; or what came before it is missing
        self._parts.append(message)
        if not message.last:
            return True
        parts, self._parts = self._parts, []
        self._expected_anew = True
        if message.base is None:
            self._replace(parts)
            self._awaits_full = False
        elif message.base > self.generation:
            return False
        else:
            self._change(parts)
        self.generation = message.generation
        return True

    def observe(self, observations: Iterable[Observation]) -> None:
        """Take in what the cluster has of some attempts; the first time, of all."""
        self._has_looked = True
        for seen in observations:
            known = self._get(seen.workload, seen.attempt, seen.number)
            known.seen = seen
            indexes = {pod.index for pod in seen.pods}
            known.made |= indexes
            self._remember(seen.attempt, known)
            if known.awaited:
                still = {} if seen.phase in OVER else known.awaited
                known.awaited = {index: node for index, node in still.items() if index not in indexes}

    def acknowledge(self, message: Ack) -> None:
        """Take in which reports the server has."""
        for taken in message.reports:
            self._settle(taken.attempt, taken.sequence)

    def refuse(self, message: Error) -> None:
        """Take in an error: a report of an attempt that the server does not know is not made again."""
        if message.code is ErrorCode.UNKNOWN_ATTEMPT and message.attempt in self._known:
            self._settle(message.attempt, self._known[message.attempt].sequence)

    def unacknowledged(self) -> tuple[Report, ...]:
        """Return the reports that the server may not have."""
        open_ = (
            known for known in self._known.values() if known.report is not None and not known.acknowledged
        )
        return tuple(known.report for known in open_ if known.report is not None)

    def count_unacknowledged(self) -> int:
        """Return how many reports the server may not have."""
        return len(self.unacknowledged())

    def phases(self) -> dict[str, int]:
        """Return of how many attempts the cluster has something, by their phase."""
        seen = (known.seen.phase.value for known in self._known.values() if known.seen is not None)
        return dict(Counter(seen))

    def expected(self) -> list[DesiredAttempt] | None:
        """Return all assignments that are let go, where that may have changed since the last call, else None."""
        if self._awaits_full or not self._expected_anew:
            return None
        self._expected_anew = False
        every = (known.wanted for known in self._known.values())
        return [wanted for wanted in every if wanted is not None and wanted.let_go]

    # Instructions

    def plan(self) -> AgentPlan:
        """Return what is to be done about the workloads that something was heard of since the last plan."""
        if self._awaits_full or not self._has_looked:
            return AgentPlan()
        stops: list[Stop] = []
        creates: list[Create] = []
        forgets: list[UUID] = []
        reports: list[Report] = []
        dirty, self._dirty = sorted(self._dirty), set()
        for workload in dirty:
            attempts = sorted(self._of_workload.get(workload, ()), key=lambda key: self._known[key].number)
            for attempt in attempts:
                known = self._known[attempt]
                stops += self._stops(attempt, known)
                creates += self._creates(known, attempts)
                report = self._report(attempt, known)
                if report is not None:
                    reports.append(report)
                if self._forgets(known):
                    forgets.append(attempt)
                    self._keep_last(attempt, known)
                self._drop_if_unspoken(attempt, known)
        return AgentPlan(tuple(stops), tuple(creates), tuple(forgets), tuple(reports))

    def _stops(self, attempt: UUID, known: _Known) -> list[Stop]:
        """Rules 2 and 4: all pods of what is not desired, or did not end whole; those that were taken away."""
        living = known.living
        if not living:
            return []
        ended_in_part = known.seen is not None and known.seen.phase in ENDED
        if known.wanted is None or ended_in_part:
            if known.told_to_stop:
                return []
            known.told_to_stop = True
            return [Stop(attempt, None, known.notice)]
        surplus = living - {pod.index for pod in known.wanted.pods} - known.stopped
        known.stopped = (known.stopped | surplus) & living
        known.made &= living | {pod.index for pod in known.wanted.pods}
        return [Stop(attempt, frozenset(surplus))] if surplus else []

    def _creates(self, known: _Known, attempts: list[UUID]) -> list[Create]:
        """Rules 3 and 4."""
        wanted = known.wanted
        if wanted is None or not wanted.let_go or known.over or known.told_to_stop:
            return []
        if known.number < self._highest.get(known.workload, 0):
            return []
        # Those before it may have been dropped in this very round.
        others = [self._known[other] for other in attempts if other in self._known]
        if any(other is not known and other.living for other in others):
            return []
        missing = tuple(pod for pod in wanted.pods if pod.index not in known.made)
        if not missing:
            return []
        known.made |= {pod.index for pod in missing}
        known.awaited |= {pod.index: pod.node for pod in missing}
        self._remember(wanted.attempt, known)
        return [Create(wanted, missing)]

    def _report(self, attempt: UUID, known: _Known) -> Report | None:
        """Rule 5: return a report where it says something new."""
        if not known.spoken_of:
            return None
        before = known.report
        if known.seen is None:
            if known.awaited or (known.wanted is not None and not known.over):
                return None  # asked for and not seen yet, or waiting to be let go
            if before is not None and before.frees_devices:
                return None  # the record was forgotten after its last report: that one stands
        report = self._told(attempt, known)
        wanted = known.wanted.pods if known.wanted is not None else None
        if before is not None and (wanted is None or known.reported_for == wanted):
            same = {"sequence": before.sequence, "generation": before.generation}
            if report.model_copy(update=same) == before:
                return None
        known.sequence, known.report, known.acknowledged = report.sequence, report, False
        known.reported_for = wanted
        return report

    def _told(self, attempt: UUID, known: _Known) -> Report:
        """Return the next report of the attempt: what is seen of it, with the pods that are being created."""
        seen = known.seen
        last = self._last.get(attempt) if seen is None and known.wanted is not None else None
        if last is not None:
            again = {"sequence": known.sequence + 1, "generation": self.generation}
            return last.model_copy(update=again)
        if seen is None:
            return Report(
                workload=known.workload, attempt=attempt, number=known.number, sequence=known.sequence + 1,
                generation=self.generation, phase=ReportedPhase.GONE,
            )  # fmt: skip
        coming = tuple(
            PodReport(index=index, node=node, state=PodState.PENDING) for index, node in known.awaited.items()
        )
        return Report(
            workload=seen.workload, attempt=attempt, number=seen.number, sequence=known.sequence + 1,
            generation=self.generation, phase=seen.phase, pods=seen.pods + coming, reason=seen.reason,
            message=seen.message, exit_code=seen.exit_code, created_at=seen.created_at,
            running_at=seen.running_at, ended_at=seen.ended_at, images=seen.images,
        )  # fmt: skip

    @staticmethod
    def _forgets(known: _Known) -> bool:
        """Rule 6: let go of the cluster's record; what the server does not ask about goes as soon as it may."""
        if known.seen is None or known.living or known.seen.phase not in OVER:
            return False
        if known.spoken_of and not known.freed_and_told:
            return False
        known.seen = None
        return True

    # Memory

    def _get(self, workload: UUID, attempt: UUID, number: int) -> _Known:
        known = self._known.get(attempt)
        if known is None:
            known = self._known[attempt] = _Known(workload, number, has_run=attempt in self._ran)
            self._of_workload.setdefault(workload, set()).add(attempt)
        self._dirty.add(workload)
        return known

    def _remember(self, attempt: UUID, known: _Known) -> None:
        """Note that the attempt had its turn, for as long as there is room."""
        if not known.has_run:
            known.has_run = True
            self._ran[attempt] = None
            if len(self._ran) > MOST_REMEMBERED:
                self._ran.popitem(last=False)

    def _keep_last(self, attempt: UUID, known: _Known) -> None:
        """Note how an attempt ended that is forgotten, for as long as there is room."""
        if known.report is not None:
            self._last[attempt] = known.report
            if len(self._last) > MOST_LAST_REPORTS:
                self._last.popitem(last=False)

    def _settle(self, attempt: UUID, sequence: int) -> None:
        known = self._known.get(attempt)
        if known is not None and known.report is not None and sequence >= known.report.sequence:
            known.acknowledged = True
            self._dirty.add(known.workload)

    def _drop_if_unspoken(self, attempt: UUID, known: _Known) -> None:
        if known.freed_and_told:
            known.stopping = False
        if not known.spoken_of and known.seen is None and not known.awaited:
            del self._known[attempt]
            self._of_workload[known.workload].discard(attempt)
            if not self._of_workload[known.workload]:
                del self._of_workload[known.workload]
                self._highest.pop(known.workload, None)

    # Desired sets

    def _same_set(self, message: Desired) -> bool:
        return (message.generation, message.base) == (self._parts[0].generation, self._parts[0].base)

    def _is_old(self, message: Desired) -> bool:
        """Return whether the message says nothing that counts: late, a second time, or before the full set."""
        if self._awaits_full:
            return message.base is not None
        return message.generation <= self.generation

    def _replace(self, parts: list[Desired]) -> None:
        for known in self._known.values():
            known.wanted, known.stopping = None, False
            self._dirty.add(known.workload)
        # The server's word is fresh: it may have forgotten higher attempts, and desires no lower ones than it knows.
        self._highest = {}
        self._change(parts)

    def _change(self, parts: list[Desired]) -> None:
        for assignment in _merged(parts):
            known = self._get(assignment.workload, assignment.attempt, assignment.number)
            known.wanted, known.stopping = assignment, False
            self._highest[known.workload] = max(known.number, self._highest.get(known.workload, 0))
            self._go_on_from(known, assignment.reported)
        for part in parts:
            for order in part.stop:
                self._order_stop(order)
            for attempt in part.forget:
                self._forget(attempt)

    def _order_stop(self, order: StopOrder) -> None:
        known = self._get(order.workload, order.attempt, order.number)
        known.wanted, known.stopping, known.notice = None, True, order.notice
        self._go_on_from(known, order.reported)

    @staticmethod
    def _go_on_from(known: _Known, reported: int) -> None:
        """Number reports after what the server has; what it has not is open again, acknowledged or not."""
        known.sequence = max(known.sequence, reported)
        if known.report is None:
            return
        if known.report.sequence < reported:
            known.report = None  # the server's last word is another agent's
        elif known.report.sequence > reported:
            known.acknowledged = False

    def _forget(self, attempt: UUID) -> None:
        known = self._known.get(attempt)
        if known is not None:
            known.wanted, known.stopping = None, False
            self._dirty.add(known.workload)


def _merged(parts: Collection[Desired]) -> Iterable[DesiredAttempt]:
    """Return the assignments of a set; one that came in pieces has all its pods."""
    whole: dict[UUID, DesiredAttempt] = {}
    for part in parts:
        for piece in part.assignments:
            before = whole.get(piece.attempt)
            pods = piece.pods if before is None else before.pods + piece.pods
            whole[piece.attempt] = piece if before is None else before.model_copy(update={"pods": pods})
    return whole.values()
