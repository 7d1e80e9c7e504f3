"""Truths 1 and 4, by the clusters' own records: an attempt runs at most once, and tables and clusters agree."""

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from chaos.truths.records import PodLine, Records
from chaos.truths.tables import WHOLE_MILLI, StoredTables
from chaos.truths.violation import TruthViolation


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Play each cluster's record again, line by line."""
    lines: dict[str, list[PodLine]] = defaultdict(list)
    for line in records.pods:
        lines[line.cluster].append(line)
    for cluster in sorted(lines):
        yield from _play(tables, lines[cluster])
    yield from _across_clusters(tables, records)
    yield from _still_there(tables, records)


def living(records: Records) -> dict[UUID, dict[int, PodLine]]:
    """Return the pods that exist by their attempt: those created and not ended since."""
    found: dict[UUID, dict[int, PodLine]] = defaultdict(dict)
    for line in records.pods:
        if line.what == "created":
            found[line.attempt][line.pod] = line
        elif line.what == "ended":
            found[line.attempt].pop(line.pod, None)
    return {attempt: pods for attempt, pods in found.items() if pods}


def _play(tables: StoredTables, lines: list[PodLine]) -> Iterator[TruthViolation]:
    """What a single cluster's record shows: pods made twice, attempts out of their order, devices over-full."""
    alive: dict[tuple[UUID, int], PodLine] = {}
    ended: dict[tuple[UUID, int], PodLine] = {}
    highest: dict[UUID, PodLine] = {}
    used: dict[tuple[str, int], dict[tuple[UUID, int], int]] = defaultdict(dict)
    for line in lines:
        pod = (line.attempt, line.pod)
        name = f"pod {line.pod} of attempt {line.number} of {tables.called(line.workload)}"
        if line.what == "refused":
            if "has less than" in line.message:
                yield TruthViolation(
                    1, f"{line.cluster} had no room for {name}: the old were not gone.", (str(line),)
                )
        elif line.what == "ended":
            alive.pop(pod, None)
            ended[pod] = line
            for index, _ in line.devices:
                used[line.node, index].pop(pod, None)
        else:
            yield from _again(tables, line, name, alive, ended)
            before = highest.get(line.workload)
            if before is not None and before.number > line.number:
                rows = (str(before), str(line))
                yield TruthViolation(4, f"{line.cluster} created {name} after a later attempt's.", rows)
            highest[line.workload] = line if before is None or line.number > before.number else before
            alive[pod] = line
            for index, share in line.devices:
                lying = used[line.node, index]
                lying[pod] = lying.get(pod, 0) + share
                if sum(lying.values()) > WHOLE_MILLI:
                    there = tuple(str(alive[other]) for other in lying if other in alive)
                    yield TruthViolation(
                        1, f"GPU {index} of {line.node} had too many pods with {name}.", there
                    )


def _again(
    tables: StoredTables,
    line: PodLine,
    name: str,
    alive: dict[tuple[UUID, int], PodLine],
    ended: dict[tuple[UUID, int], PodLine],
) -> Iterator[TruthViolation]:
    """A pod that was there before; only a gang that may shrink gets one back."""
    pod = (line.attempt, line.pod)
    workload = tables.workload.get(line.workload)
    may_shrink = workload is not None and workload.min_pods < workload.pods
    if pod in alive:
        yield TruthViolation(
            4, f"{line.cluster} created {name} while it was there.", (str(alive[pod]), str(line))
        )
    elif pod in ended and not may_shrink:
        yield TruthViolation(4, f"{line.cluster} ran {name} twice.", (str(ended[pod]), str(line)))


def _across_clusters(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Two attempts of a workload never have pods at the same time, wherever."""
    spans: dict[UUID, dict[tuple[str, UUID], list[PodLine]]] = defaultdict(lambda: defaultdict(list))
    for line in records.pods:
        if line.what != "refused":
            spans[line.workload][line.cluster, line.attempt].append(line)
    for workload, attempts in spans.items():
        if len({attempt for _, attempt in attempts}) < len(attempts):
            rows = tuple(str(lines[0]) for lines in attempts.values())
            yield TruthViolation(4, f"An attempt of {tables.called(workload)} ran in two clusters.", rows)
        before: list[PodLine] = []
        for lines in sorted(attempts.values(), key=lambda lines: lines[0].number):
            if before and _last_end(before) > lines[0].at and lines[0].attempt != before[0].attempt:
                rows = (*map(str, before), *map(str, lines))
                yield TruthViolation(4, f"Two attempts of {tables.called(workload)} had pods at once.", rows)
            before = lines


def _last_end(lines: list[PodLine]) -> float:
    """Return when the last pod ended; never, where one is still there."""
    alive = {line.pod for line in lines if line.what == "created"} - {
        line.pod for line in lines if line.what == "ended"
    }
    return float("inf") if alive else max(line.at for line in lines)


def _still_there(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """What the tables call gone is gone in the cluster."""
    for attempt_id, pods in living(records).items():
        attempt = tables.attempt.get(attempt_id)
        rows = tuple(map(str, pods.values()))
        if attempt is None and all(pod.at > records.before for pod in pods.values()):
            continue  # younger than what was read of the tables
        if attempt is None:
            yield TruthViolation(
                4, f"Pods of attempt {attempt_id} exist, of which the tables know nothing.", rows
            )
        elif attempt.released_at is not None:
            name = f"Attempt {attempt.number} of {tables.called(attempt.workload_id)}"
            yield TruthViolation(
                1, f"{name} still has pods; its devices were given back.", (str(attempt), *rows)
            )
