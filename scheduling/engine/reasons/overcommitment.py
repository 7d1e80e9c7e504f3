"""Devices of which more is held than they have: what a database could hold, and no plan brings about (section 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from scheduling.engine.model.plan import Finding, FindingCode
from scheduling.engine.model.quantities import gpus, in_gpus
from scheduling.engine.model.snapshot import GPU_MILLI, Status
from scheduling.engine.reasons.outcome import PoolOutcome


def overcommitted(cycle: PoolOutcome) -> Iterator[Finding]:
    """A finding for each device that is held, or promised, beyond what it has, by node and index."""
    nodes, ledger = cycle.nodes, cycle.ledger
    short = [
        rank for rank, node_free in enumerate(ledger.now.free) if node_free.gpu and min(node_free.gpu) < 0
    ]
    if not short:
        return
    promised = _promised(cycle)
    for rank in short:
        node = nodes.rows[rank]
        for at, device in enumerate(node.devices):
            most = 0 if device.foreign else device.share_milli
            held = most - ledger.now.free[rank].gpu[at] - promised[rank, at]
            milli = max(held, most - ledger.later.free[rank].gpu[at])
            if milli > most:
                has = "is used by others" if device.foreign else f"has {in_gpus(most)}"
                lie = "lies" if milli == GPU_MILLI else "lie"
                text = (
                    f"On the device {device.index} of the node {node.name} {lie} {gpus(milli)}, but it {has}."
                )
                yield Finding(FindingCode.OVERCOMMITTED, cycle.pool.id, None, text)


def _promised(cycle: PoolOutcome) -> Counter[tuple[int, int]]:
    """What of each device is promised to those whose pods do not exist yet."""
    found: Counter[tuple[int, int]] = Counter()
    of_pool = ((each.workload, each.pods) for each in chain(cycle.not_running(), cycle.started.values()))
    guests = ((guest, guest.placements) for guest in cycle.ledger.guests.values())
    for workload, pods in chain(of_pool, guests):
        if workload.status in (Status.QUEUED, Status.PENDING):
            for pod in pods:
                rank, picks = cycle.ledger.spot(pod) or (0, ())
                for at, milli in picks:
                    found[rank, at] += milli
    return found
