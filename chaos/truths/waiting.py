"""Truth 5: whatever failed cost delay only. After a quiet time nothing is under way that should have arrived."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from chaos.truths.pods import living
from chaos.truths.records import PodLine, Records
from chaos.truths.tables import StoredAttempt, StoredTables, StoredWorkload
from chaos.truths.violation import TruthViolation

SLACK = timedelta(seconds=10)


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Find what nobody moves any more."""
    for cluster in tables.clusters:
        if not cluster.connected:
            yield TruthViolation(5, f"The cluster {cluster.name} is not connected.", (str(cluster),))
    alive = living(records)
    for workload in tables.workloads:
        attempt = tables.attempt[workload.attempt_id] if workload.attempt_id else None
        if workload.status == "pending":
            yield from _pending(tables, workload)
        elif attempt is not None:
            yield from _admitted(tables, records, workload, attempt, alive)
    for attempt in tables.attempts:
        if attempt.ended_at is not None and attempt.released_at is None:
            yield from _leaving(tables, records, attempt, alive)


def _pending(tables: StoredTables, workload: StoredWorkload) -> Iterator[TruthViolation]:
    if not workload.reason_code:
        yield TruthViolation(5, f"{workload.slug} waits without a reason.", (str(workload),))
    until = workload.backoff_until
    if workload.reason_code == "backing-off" and (until is None or until + SLACK < tables.now):
        yield TruthViolation(5, f"{workload.slug} still backs off, until {until}.", (str(workload),))
    if workload.held != (workload.reason_code == "held"):
        yield TruthViolation(
            5, f"{workload.slug}: held is {workload.held}, its reason says otherwise.", (str(workload),)
        )


def _admitted(
    tables: StoredTables,
    records: Records,
    workload: StoredWorkload,
    attempt: StoredAttempt,
    alive: dict[UUID, dict[int, PodLine]],
) -> Iterator[TruthViolation]:
    assignment = tables.assignment.get(attempt.id)
    if assignment is None:
        yield TruthViolation(
            5, f"{workload.slug} is {workload.status} and assigned nowhere.", (str(workload),)
        )
        return
    rows = (str(workload), str(attempt), str(assignment))
    name = next(cluster.name for cluster in tables.clusters if cluster.id == assignment.cluster_id)
    if workload.status == "starting" or (workload.status == "queued" and assignment.let_go):
        yield TruthViolation(5, f"{workload.slug} stays {workload.status}; its pods may exist.", rows)
    elif workload.status == "queued" and _could_go(tables, attempt.id):
        yield TruthViolation(5, f"{workload.slug} is not let go, and its devices are free.", rows)
    elif workload.status == "running" and name in records.clusters and attempt.id not in alive:
        yield TruthViolation(5, f"{workload.slug} is Running, and {name} has no pod of it.", rows)


def _could_go(tables: StoredTables, attempt_id: UUID) -> bool:
    """Return whether everything that was promised to the attempt is free."""
    used = {device.id: device.occupied_milli for device in tables.devices}
    for row in tables.placements:
        if row.attempt_id == attempt_id and row.hold == "promised":
            used[row.device_id] += row.share_milli
    mine = {row.device_id for row in tables.placements if row.attempt_id == attempt_id}
    whole = {device.id: device.share_milli for device in tables.devices}
    return all(used[device_id] <= whole[device_id] for device_id in mine)


def _leaving(
    tables: StoredTables, records: Records, attempt: StoredAttempt, alive: dict[UUID, dict[int, PodLine]]
) -> Iterator[TruthViolation]:
    assignment = tables.assignment.get(attempt.id)
    cluster = next((c.name for c in tables.clusters if assignment and c.id == assignment.cluster_id), "")
    gone = attempt.id not in alive if cluster in records.clusters else attempt.ended_at is not None
    if gone and (attempt.ended_at is None or attempt.ended_at + SLACK < tables.now):
        name = f"Attempt {attempt.number} of {tables.called(attempt.workload_id)}"
        yield TruthViolation(
            5, f"{name} has no pods any more and keeps its devices.", (str(attempt), str(assignment))
        )
