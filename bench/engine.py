"""How fast the scheduling engine decides on an organisation of a given size, without any database.

    python -m bench.engine
    python -m bench.engine --rows cold growth --scale 0.1
    python -m bench.engine --rows cold --scale 0.1 --starts 1000

Rows: `cold`, a state made from a snapshot and a full cycle on it (and `told`, working out who waits why, which happens
when somebody looks); `event`, a decision after one submission or one completion, on the state that is kept and in
which nothing else moves any more, and the cycles of its `aftermath`, until nothing moves again; `preemption`, a full
cluster and one reserved gang of 1,024 GPUs that needs a block of its own: `state_and_cycle` from nothing, `decision` as
the gang is submitted, on a state that is kept but has never looked for victims, and `decision_again` as it is submitted
once more; `growth`, the cold row at a hundredth, a tenth and all of the size, with the exponent of its growth.
`--starts` frees so much that about so many of the pending ones start at once. See bench.organisation for the sizes.
Prints JSON: seconds by the wall and of the processor, over all runs. As in the worker, no garbage is collected
meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bench.organisation import NOW, carried_out, full_for_a_gang, milli_of, organisation
from scheduling.engine import GPU_MILLI, Changes, OpenStatus, Plan, Snapshot, State, decide

ROWS = ("cold", "event", "preemption", "growth")
GROWTH = (0.01, 0.1, 1.0)
SECOND_MS = 1_000
MOST_CYCLES = 100
"""After so many cycles without an event nothing moves any more."""
T = TypeVar("T")


class Stopwatch:
    """Seconds by the wall and of the processor, by what was done."""

    def __init__(self) -> None:
        self._taken: dict[str, list[tuple[float, float]]] = {}

    def time(self, name: str, work: Callable[[], T]) -> T:
        """Return what the work gives, and note how long it took."""
        processor, began = time.process_time(), time.perf_counter()
        done = work()
        taken = (time.perf_counter() - began, time.process_time() - processor)
        self._taken.setdefault(name, []).append(taken)
        return done

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the spread of each."""
        return {
            name: {
                "wall": spread([wall for wall, _ in taken]),
                "processor": spread([processor for _, processor in taken]),
            }
            for name, taken in self._taken.items()
        }


def spread(seconds: list[float]) -> dict[str, float]:
    """Return median, least and most."""
    named = {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}
    return {name: round(value, 4) for name, value in named.items()}


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep the garbage collector out of what is measured; what is there already is no garbage."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def cold(snapshot: Snapshot, runs: int) -> dict[str, Any]:
    """Measure a state and a full cycle from nothing."""
    watch = Stopwatch()
    for _ in range(runs):
        with no_collections():
            plan = watch.time("state_and_cycle", lambda: decide(State.of(snapshot), NOW))
            watch.time("told", plan.waits.__len__)
    return {"seconds": watch.figures(), "peak_rss_mib": peak_rss_mib(), "work": shape(snapshot, plan)}


def event(snapshot: Snapshot, events: int, seed: int) -> dict[str, Any]:
    """Measure decisions after single events on a state that is kept, and the cycles that follow from them."""
    watch, chance, now = Stopwatch(), random.Random(seed), NOW
    state = State.of(snapshot)
    starts = 0
    with no_collections():
        plan, now = settled(state, decide(state, now), now, Stopwatch())
        for number in range(events):
            submitted = number % 2 == 0
            changes = submission(snapshot, chance, number, now) if submitted else completion(state, chance)
            plan = watch.time(
                "submission" if submitted else "completion", partial(decision, state, changes, now)
            )
            starts += len(plan.starts)
            plan, now = settled(state, plan, now, watch)
    same = plan == decide(State.of(state.snapshot), now)
    return {"seconds": watch.figures(), "events": events, "starts": starts, "same_as_cold": same}


def settled(state: State, plan: Plan, now: int, watch: Stopwatch) -> tuple[Plan, int]:
    """Carry out a plan, and those that follow, until one starts and preempts nobody; return that and its time."""
    for _ in range(MOST_CYCLES):
        now += SECOND_MS
        plan = watch.time("aftermath", partial(decision, state, after(state, plan), now))
        if not (plan.starts or plan.preemptions):
            return plan, now
    raise RuntimeError(f"After {MOST_CYCLES} cycles there are still workloads that start or are preempted.")


def decision(state: State, changes: Changes, now: int) -> Plan:
    """Return the plan after something has happened."""
    state.apply(changes)
    return decide(state, now)


def preemption(snapshot: Snapshot, runs: int) -> dict[str, Any]:
    """Measure the same for a gang, and the decision alone, as an event on a state that is kept."""
    watch, found = Stopwatch(), cold(snapshot, runs)
    gang = next(each for each in snapshot.workloads if each.status is OpenStatus.PENDING)
    submitted, gone = Changes(workloads=(gang,)), Changes(gone_workloads=(gang.id,))
    before = replace(snapshot, workloads=tuple(each for each in snapshot.workloads if each is not gang))
    for _ in range(runs):
        with no_collections():
            state = State.of(before)
            decide(state, NOW - SECOND_MS)
            plan = watch.time("decision", partial(decision, state, submitted, NOW))
            decision(state, gone, NOW + SECOND_MS)
            watch.time("decision_again", partial(decision, state, submitted, NOW + 2 * SECOND_MS))
    same = plan == decide(State.of(snapshot), NOW)
    return {**found, "seconds": found["seconds"] | watch.figures(), "same_as_cold": same}


def after(state: State, plan: Plan) -> Changes:
    """Return what changes as a plan is carried out."""
    ids = [start.workload for start in plan.starts] + [gone.workload for gone in plan.preemptions]
    return Changes(workloads=tuple(carried_out((state.workload(id_) for id_ in ids), plan)))


def submission(snapshot: Snapshot, chance: random.Random, number: int, now: int) -> Changes:
    """Return one more pending workload, like one of those that there are."""
    like = chance.choice(snapshot.workloads)
    name = f"n{number:06d}"
    fresh = replace(
        like, id=name, name=name, status=OpenStatus.PENDING, pool=None, placements=(), started_at=None
    )
    return Changes(workloads=(replace(fresh, submitted_at=now),))


def completion(state: State, chance: random.Random) -> Changes:
    """Return the end of a running workload."""
    rows = state.snapshot.workloads
    gone = chance.choice(rows)
    while gone.status is not OpenStatus.RUNNING:
        gone = chance.choice(rows)
    return Changes(gone_workloads=(gone.id,))


def growth(seed: int, runs: int, largest: float) -> dict[str, Any]:
    """Measure the cold row at several sizes."""
    scales = [scale for scale in GROWTH if scale <= largest]
    sizes = {scale: cold(organisation(scale, seed), runs) for scale in scales}
    seconds = [sizes[scale]["seconds"]["state_and_cycle"]["processor"]["median"] for scale in scales]
    exponents = [
        round(math.log(seconds[at + 1] / seconds[at]) / math.log(scales[at + 1] / scales[at]), 2)
        for at in range(len(scales) - 1)
    ]
    return {
        "sizes": [
            {"scale": scale, "seconds": sizes[scale]["seconds"], "work": sizes[scale]["work"]}
            for scale in scales
        ],
        "exponents": exponents,
    }


def peak_rss_mib() -> int:
    """Return the most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def shape(snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
    """Return what the work was."""
    placed = [each for each in snapshot.workloads if each.status is OpenStatus.RUNNING]
    pending = [each for each in snapshot.workloads if each.status is OpenStatus.PENDING]
    capacity = sum(len(node.devices) for node in snapshot.nodes) * GPU_MILLI
    reserved = sum(team.shares[0].reservation_milli for team in snapshot.teams)
    return {
        "nodes": len(snapshot.nodes),
        "gpus": capacity // GPU_MILLI,
        "teams": len(snapshot.teams),
        "reserved_part": round(reserved / capacity, 3),
        "running": len(placed),
        "filled_part": round(sum(milli_of(each) for each in placed) / capacity, 3),
        "pending": len(pending),
        "gangs_pending": sum(each.pods > 1 for each in pending),
        "starts": len(plan.starts),
        "preemptions": len(plan.preemptions),
        "gpus_preempted": sum(each.milli for each in plan.preemptions) / GPU_MILLI,
        "waits": dict(Counter(str(each.reason.code) for each in plan.waits).most_common()),
    }


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument(
        "--starts", type=int, default=0, help="free room for about so many of the pending ones"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--events", type=int, default=200)
    asked = parser.parse_args()
    found: dict[str, Any] = dict(vars(asked))
    if {"cold", "event"} & set(asked.rows):
        snapshot = organisation(asked.scale, asked.seed, asked.starts)
        gc.collect()
        if "cold" in asked.rows:
            found["cold"] = cold(snapshot, asked.runs)
        if "event" in asked.rows:
            found["event"] = event(snapshot, asked.events, asked.seed)
        del snapshot
    if "preemption" in asked.rows:
        found["preemption"] = preemption(full_for_a_gang(asked.scale, asked.seed), asked.runs)
    if "growth" in asked.rows:
        found["growth"] = growth(asked.seed, asked.runs, asked.scale)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
