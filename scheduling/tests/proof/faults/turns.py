"""Whose turn it is, and who may pass whom."""

from __future__ import annotations

from dataclasses import replace

from scheduling.checker import BrokenRule
from scheduling.engine import Fairness, OpenStatus, Queueing
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, waiting
from scheduling.tests.proof.faults.worlds import (
    GROWS,
    LARGE_FIRST,
    QUEUE,
    USED,
    Fault,
    each,
    world,
)
from scheduling.tests.proof.plants import blind, field, of, policy, wrong

TURNS = (
    Fault("priorities are ignored", BrokenRule.ORDER, QUEUE, blind(workloads=field(priority=50))),
    Fault(
        "the last comes first",
        BrokenRule.ORDER,
        QUEUE,
        blind(workloads=lambda row: {"submitted_at": 2 * NOW - row.submitted_at}),
    ),
    Fault(
        "usage is forgotten",
        BrokenRule.ORDER,
        USED,
        blind(teams=lambda row: {"shares": tuple(replace(each, usage_gpu_ms=0) for each in row.shares)}),
    ),
    Fault(
        "shares are divided by the wrong fairness",
        BrokenRule.ORDER,
        USED,
        blind(pools=policy(fairness=Fairness.ENTITLEMENT)),
    ),
    Fault(
        "positions begin with nought",
        BrokenRule.POSITION,
        QUEUE,
        each("waits", lambda row: replace(row, position=row.position - 1)),
    ),
    Fault(
        "a blocked head is passed under strict FIFO",
        BrokenRule.STRICT_FIFO,
        world(*LARGE_FIRST, pools=(pool(queueing=Queueing.STRICT_FIFO),)),
        blind(pools=policy(queueing=Queueing.BEST_EFFORT_FIFO)),
    ),
    Fault(
        "nothing is kept for the head",
        BrokenRule.START_RESERVATION,
        world(*LARGE_FIRST),
        blind(pools=policy(queueing=Queueing.BEST_EFFORT_FIFO)),
    ),
    Fault(
        "somebody is kept waiting for nothing",
        BrokenRule.PASSED_OVER,
        world(*LARGE_FIRST, pools=(pool(queueing=Queueing.BEST_EFFORT_FIFO),)),
        blind(pools=policy(queueing=Queueing.STRICT_FIFO)),
    ),
    Fault(
        "who comes first is passed",
        BrokenRule.PASSED_OVER,
        world(node("n", 1), waiting("first", "a", priority=60), waiting("second", "b", priority=50)),
        blind(workloads=of("second", priority=70)),
    ),
    Fault(
        "a gang does not grow",
        BrokenRule.PASSED_OVER,
        GROWS,
        wrong("decide.decide.scale_up", lambda _: {}, also="acceleration.decide.scale_up"),
    ),
    Fault(
        "a held one starts",
        BrokenRule.NOT_ELIGIBLE,
        world(node("n", 1), waiting("w", "a", held=True)),
        blind(workloads=field(held=False)),
    ),
    Fault(
        "one that runs starts again",
        BrokenRule.WRONG_ACTION,
        world(node("n", 2), placed("r", "a", on="n:0")),
        blind(workloads=field(status=OpenStatus.PENDING, pool=None, placements=())),
    ),
    Fault(
        "one that backs off starts",
        BrokenRule.NOT_ELIGIBLE,
        world(node("n", 1), waiting("w", "a", backing_off_until=NOW + MINUTE)),
        blind(workloads=field(backing_off_until=None)),
    ),
    Fault(
        "one is kept out for nothing",
        BrokenRule.NOT_ELIGIBLE,
        world(node("n", 1), waiting("w", "a")),
        blind(workloads=field(held=True)),
    ),
    Fault(
        "the gate is never shut",
        BrokenRule.STRICT_FIFO,
        world(*LARGE_FIRST, pools=(pool(queueing=Queueing.STRICT_FIFO),)),
        wrong("backfill.passing.Backfill.shut", property(lambda _: False)),
    ),
)
