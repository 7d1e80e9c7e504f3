"""The truths of a deployment that one database can show: each check returns a sentence for every row that breaks it."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from uuid import UUID

from django.db import connection

from agentlink.models import Assignment, Device, Hold, Placement
from teams.models.job_class import RESERVED_FROM
from workloads.models import Attempt, EndReason, Event, Status, Workload
from workloads.models.workload import ADMITTED, OPEN
from workloads.transitions import TRANSITIONS

OCCUPYING = {Hold.HELD, Hold.LEAVING}
ALLOCATING = {Hold.PROMISED, Hold.HELD}


def broken() -> list[str]:
    """Return what is not as it must be, in the transaction's eyes (9 queries, and the checks put off until its end)."""
    connection.check_constraints()
    return [*_devices(), *_attempts(), *_events(), *_placements(), *_teams()]


def _devices() -> Iterator[str]:
    """No device is held or promised beyond its capacity, and its counters are the sums of what lies on it."""
    occupied: dict[UUID, int] = defaultdict(int)
    allocated: dict[UUID, int] = defaultdict(int)
    for device_id, hold, share in Placement.objects.values_list("device_id", "hold", "share_milli"):
        occupied[device_id] += share if hold in OCCUPYING else 0
        allocated[device_id] += share if hold in ALLOCATING else 0
    for device in Device.objects.all():
        sums = (occupied[device.pk], allocated[device.pk])
        if (device.occupied_milli, device.allocated_milli) != sums:
            yield f"{device.pk} counts {device.occupied_milli}/{device.allocated_milli}, its placements are {sums}"
        if max(sums) > device.share_milli:
            yield f"{device.pk} is over its capacity: {sums}"


def _attempts() -> Iterator[str]:
    """At most one attempt is open, and only of who is admitted; a reserved workload is never preempted."""
    attempts: dict[UUID, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.order_by("workload", "number"):
        attempts[attempt.workload_id].append(attempt)
    for workload in Workload.objects.all():
        its = attempts[workload.pk]
        still_open = [attempt.pk for attempt in its if attempt.ended_at is None]
        expected = [workload.attempt_id] if workload.status in ADMITTED else []
        if still_open != expected:
            yield f"{workload} is {workload.status} with the open attempts {still_open}, not {expected}"
        if [attempt.number for attempt in its] != list(range(1, len(its) + 1)):
            yield f"{workload} has the attempts {[attempt.number for attempt in its]}"
        preempted = [attempt.number for attempt in its if attempt.end_reason == EndReason.PREEMPTED]
        if workload.priority >= RESERVED_FROM and preempted:
            yield f"{workload} is reserved and was preempted: {preempted}"
        for attempt in its:
            times = [attempt.queued_at, attempt.starting_at, attempt.running_at, attempt.ended_at]
            known = [time for time in times if time is not None]
            if known != sorted(known):
                yield f"{attempt} has times out of order: {known}"


def _events() -> Iterator[str]:
    """Events are numbered without a gap; their statuses are a legal way, and end where the workload stands."""
    events: dict[UUID, list[Event]] = defaultdict(list)
    for event in Event.objects.order_by("workload", "sequence"):
        events[event.workload_id].append(event)
    for workload in Workload.objects.all():
        its = events[workload.pk]
        if [event.sequence for event in its] != list(range(1, workload.last_event + 1)):
            yield f"{workload} has the events {[event.sequence for event in its]} of {workload.last_event}"
        way = [Status.PENDING, *(Status(e.data["status"]) for e in its if e.kind == "status")]
        for old, new in pairwise(way):
            if new not in TRANSITIONS[old]:
                yield f"{workload} tells that it went from {old} to {new}"
        if way[-1] != workload.status:
            yield f"{workload} is {workload.status}, and its events end with {way[-1]}"


def _placements() -> Iterator[str]:
    """What an attempt has of devices follows how far it is: let go, over, gone."""
    holds: dict[UUID, set[Hold]] = defaultdict(set)
    for attempt_id, hold in Placement.objects.exclude(hold=Hold.RELEASED).values_list("attempt_id", "hold"):
        holds[attempt_id].add(Hold(hold))
    for row in Assignment.objects.select_related("attempt"):
        over = row.attempt.ended_at is not None
        if row.wanted == over:
            yield f"{row} is wanted: {row.wanted}, and over: {over}"
        if (row.attempt.released_at is not None) != row.gone:
            yield f"{row} is gone: {row.gone}, and was released at {row.attempt.released_at}"
        if row.gone:
            needed: set[Hold] = set()
            allowed: set[Hold] = set()
        elif over:
            needed = allowed = {Hold.LEAVING}
        elif row.let_go:  # pods that a gang gave up may be leaving
            needed, allowed = {Hold.HELD}, {Hold.HELD, Hold.LEAVING}
        else:
            needed = allowed = {Hold.PROMISED}
        if not needed <= holds[row.attempt_id] <= allowed:
            yield f"{row} has placements {holds[row.attempt_id]}, where {needed} must be and {allowed} may"


def _teams() -> Iterator[str]:
    """Nothing is open in a team that was archived."""
    for workload in Workload.objects.filter(status__in=OPEN, team__archived_at__isnull=False):
        yield f"{workload} is {workload.status} in an archived team"
