"""Truth 2: a reserved workload is never preempted, and a guarantee is never lent to somebody else's reserved work."""

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from chaos.truths.quotas import StoredQuotas
from chaos.truths.records import Records
from chaos.truths.tables import RESERVED_FROM, StoredAttempt, StoredTables
from chaos.truths.violation import TruthViolation


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:  # noqa: ARG001 - all checks take both
    """Look at who was preempted, and at what reserved work is charged to."""
    yield from _preempted(tables)
    yield from _charges(tables)


def _preempted(tables: StoredTables) -> Iterator[TruthViolation]:
    """Preempted attempts, and what the events tell of the victims' priority at the time."""
    for attempt in tables.attempts:
        workload = tables.workload[attempt.workload_id]
        if attempt.end_reason == "preempted" and workload.is_reserved:
            sentence = f"{workload.slug} is reserved (priority {workload.priority}) and was preempted."
            yield TruthViolation(2, sentence, (str(workload), str(attempt)))
    for event in tables.events:
        if event.kind != "preempted-others":
            continue
        for victim in event.data.get("victims", ()):
            if victim["priority"] >= RESERVED_FROM:
                who = tables.called(event.workload_id)
                sentence = f"{who} preempted a workload that had priority {victim['priority']} then."
                yield TruthViolation(2, sentence, (str(event), str(victim)))


def _charges(tables: StoredTables) -> Iterator[TruthViolation]:
    """Reserved work is charged inside its own guarantee or an ancestor's own part, and no more than there is."""
    quotas = StoredQuotas(tables)
    charged: dict[tuple[UUID, UUID], list[tuple[int, StoredAttempt]]] = defaultdict(list)
    for attempt in tables.attempts:
        workload = tables.workload[attempt.workload_id]
        if attempt.ended_at is not None or not workload.is_reserved:
            continue
        above = {str(team_id) for team_id in quotas.line(workload.team_id)}
        for part in attempt.allocation:
            if part["team"] not in above:
                sentence = f"{workload.slug} is reserved and charged to {part['team'] or 'burst'}."
                yield TruthViolation(2, sentence, (str(workload), str(attempt)))
            else:
                charged[attempt.pool_id, UUID(part["team"])].append((part["milli"], attempt))
    for (pool_id, team_id), parts in charged.items():
        total, own = sum(milli for milli, _ in parts), quotas.own_part(pool_id, team_id)
        if total > own:
            sentence = (
                f"Reserved work holds {total} milli-GPUs of the {own} that {tables.team[team_id].slug} has."
            )
            yield TruthViolation(2, sentence, tuple(str(attempt) for _, attempt in parts))
