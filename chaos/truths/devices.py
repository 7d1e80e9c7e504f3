"""Truth 1: no device is held or promised beyond itself, and no newcomer is let go before the old are gone."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from uuid import UUID

from chaos.truths.records import Records
from chaos.truths.tables import StoredEvent, StoredPlacement, StoredTables
from chaos.truths.violation import TruthViolation

PODS_MAY_EXIST = frozenset({"held", "leaving"})
GIVEN_TO_ADMITTED = frozenset({"promised", "held"})


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:  # noqa: ARG001 - all checks take both
    """Add up what lies on each device now, and what lay on it at any time as the events tell."""
    on_device: dict[UUID, list[StoredPlacement]] = defaultdict(list)
    for placement in tables.placements:
        on_device[placement.device_id].append(placement)
    for device in tables.devices:
        lying = on_device[device.id]
        name = tables.device_name[device.id]
        for word, holds, counter in (
            ("held by pods that may exist", PODS_MAY_EXIST, device.occupied_milli),
            ("given to admitted workloads", GIVEN_TO_ADMITTED, device.allocated_milli),
        ):
            counted = [row for row in lying if row.hold in holds]
            total = sum(row.share_milli for row in counted)
            rows = (str(device), *map(str, counted))
            if total > device.share_milli:
                yield TruthViolation(
                    1, f"{name} has {total} milli-GPUs {word}, of {device.share_milli}.", rows
                )
            if total != counter:
                yield TruthViolation(
                    1, f"{name}: {total} milli-GPUs are {word}, its counter says {counter}.", rows
                )
    yield from _over_time(tables, on_device)
    yield from _released(tables)


@dataclass(frozen=True, slots=True)
class _Stay:
    """From which event on an attempt's pods may have been on a device, and with which they were gone."""

    begins: int
    ends: float
    placement: StoredPlacement
    proof: tuple[StoredEvent, ...]


def _over_time(
    tables: StoredTables, on_device: dict[UUID, list[StoredPlacement]]
) -> Iterator[TruthViolation]:
    """Follow each device through the events, which are numbered in the order in which they were written."""
    stays = {
        attempt.id: stay for attempt in tables.attempts if (stay := _stay(tables, attempt.id)) is not None
    }
    whole = {device.id: device.share_milli for device in tables.devices}
    for device_id, placements in on_device.items():
        lying: list[_Stay] = []
        staying = [(stays[row.attempt_id], row) for row in placements if row.attempt_id in stays]
        for (begins, ends, proof), row in sorted(staying, key=lambda pair: pair[0][0]):
            lying = [stay for stay in lying if stay.ends > begins]
            lying.append(_Stay(begins, ends, row, proof))
            total = sum(stay.placement.share_milli for stay in lying)
            if total > whole[device_id]:
                rows = [str(row) for stay in lying for row in (stay.placement, *stay.proof)]
                name = tables.device_name[device_id]
                who = tables.called(tables.attempt[row.attempt_id].workload_id)
                yield TruthViolation(
                    1,
                    f"{who} was let go on {name} before the old were gone: {total} milli-GPUs.",
                    tuple(rows),
                )


def _stay(tables: StoredTables, attempt_id: UUID) -> tuple[int, float, tuple[StoredEvent, ...]] | None:
    """Return between which events the attempt's pods may have existed; None where they never did.

    Who was let go at once has no event of that: then the cluster's first word of the pods counts. Gangs that grow and
    shrink hold each device for a time of its own, which no event tells: they are left out.
    """
    attempt, assignment = tables.attempt[attempt_id], tables.assignment.get(attempt_id)
    workload = tables.workload[attempt.workload_id]
    if assignment is None or not assignment.let_go or workload.min_pods < workload.pods:
        return None
    mine = [event for event in tables.events_of[workload.id] if event.attempt_number == attempt.number]
    begins = next((event for event in mine if event.kind == "let-go"), None) or next(
        (event for event in mine if event.data.get("status") in ("starting", "running")), None
    )
    if begins is None:
        return None
    freed = next((event for event in mine if event.kind == "devices-freed"), None)
    return begins.id, inf if freed is None else freed.id, (begins, freed) if freed else (begins,)


def _released(tables: StoredTables) -> Iterator[TruthViolation]:
    """What is over and gone holds nothing; what is not over is not given back."""
    lying: dict[UUID, list[StoredPlacement]] = defaultdict(list)
    for row in tables.placements:
        if row.hold != "released":
            lying[row.attempt_id].append(row)
    for attempt in tables.attempts:
        rows = lying[attempt.id]
        name = f"Attempt {attempt.number} of {tables.called(attempt.workload_id)}"
        if attempt.released_at is not None and rows:
            yield TruthViolation(
                1, f"{name} was released and still has devices.", (str(attempt), *map(str, rows))
            )
        if attempt.ended_at is None and not rows:
            yield TruthViolation(1, f"{name} is open and has no device.", (str(attempt),))
        wrong = [row for row in rows if (row.hold in GIVEN_TO_ADMITTED) != (attempt.ended_at is None)]
        workload = tables.workload[attempt.workload_id]
        if wrong and workload.min_pods == workload.pods:
            yield TruthViolation(
                1, f"{name} holds devices as it should not now.", (str(attempt), *map(str, wrong))
            )
