"""Random histories: the state that is kept between cycles, and one made anew, give the same plan byte for byte.

``python -m scheduling.tests.proof.histories --count 10000 --seed 1`` runs many of them; a few run with the tests.
A history is a random organisation to which things happen (work, nodes, edits of tree and policy, the clock); the one
who keeps the state hears of it late, twice, in parts, or has crashed meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import fields, replace
from random import Random

from scheduling.checker import check
from scheduling.engine import Changes, Doubt, Plan, Snapshot, State, decide, schedule
from scheduling.tests.proof.organisation import Organisation, happen

CYCLES = 8
PROGRESS = 1000
EVERY_BOUND = 5
"""Of so many organisations one has a namespace for each team."""


class Difference(AssertionError):  # noqa: N818 - a finding, not a fault of the test
    """Two plans that should be the same are not; or a plan breaks a rule."""


class Keeper:
    """Keeps a state from event to event, and loses its memory now and then."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.state = State.of(snapshot)
        self.met: Counter[str] = Counter()

    def hear(self, snapshot: Snapshot, chance: Random) -> None:
        """Bring the state up to date with what the rows say now."""
        changes = Changes.between(self.state.snapshot, snapshot)
        fate = chance.random()
        if fate < 0.05:
            self.met["crashed before it applied"] += 1
            self.state = State.of(snapshot)
        elif fate < 0.15:
            self.met["applied in two parts"] += 1
            self.state.apply(replace(changes, workloads=(), gone_workloads=()))
            self.state.apply(Changes(changes.workloads, changes.gone_workloads))
        elif fate < 0.25:
            self.met["applied twice"] += 1
            self.state.apply(changes)
            self._again(changes, snapshot)
        elif fate < 0.3:
            self.met["heard nonsense first"] += 1
            self._nonsense()
            self.state.apply(changes)
        else:
            self.met["applied"] += 1
            self.state.apply(changes)

    def _again(self, changes: Changes, snapshot: Snapshot) -> None:
        """The same event once more: rows as they are change nothing, somebody who goes twice is a doubt."""
        try:
            self.state.apply(changes)
        except Doubt:
            self.met["made anew after a doubt"] += 1
            self.state = State.of(snapshot)

    def _nonsense(self) -> None:
        """A change that does not fit is refused, and changes nothing."""
        before = self.state.snapshot
        try:
            self.state.apply(Changes(before.workloads[:1], ("nobody",)))
        except Doubt:
            return
        raise Difference("a change that does not fit was taken")


def run(seed: int, *, checked: bool = False) -> Counter[str]:
    """One history. Raises :class:`Difference` where the plans differ (``checked``: or break a rule); returns what was
    met on the way."""
    chance = Random(seed)
    organisation = Organisation(chance, bound=seed % EVERY_BOUND == 0)
    for _ in range(chance.randint(3, 12)):
        organisation.submit(chance)
    keeper = Keeper(organisation.snapshot)
    for cycle in range(CYCLES):
        happen(organisation, chance, chance.choice((0, 1, 2, 4, 8)))
        if organisation.crowded():
            raise Difference(f"cycle {cycle}: more exists than there is room for: {organisation.crowded()}")
        if chance.random() < 0.15:
            keeper.met["an event was lost for a while"] += 1
            continue
        snapshot, now = organisation.snapshot, organisation.now
        keeper.hear(snapshot, chance)
        plan = _the_same(keeper, _shuffled(snapshot, chance), now, f"cycle {cycle}")
        if checked:
            for violation in check(snapshot, plan, now):
                raise Difference(f"cycle {cycle}: {violation}")
        keeper.met.update(starts=len(plan.starts), victims=len(plan.preemptions) + len(plan.shrinks))
        if chance.random() < 0.8:
            organisation.carry_out(plan)
    return keeper.met


def _the_same(keeper: Keeper, snapshot: Snapshot, now: int, where: str) -> Plan:
    """The plan, if the kept state, the same asked again, and one made anew agree on it."""
    kept = decide(keeper.state, now)
    first = as_bytes(kept)
    if as_bytes(decide(keeper.state, now)) != first:
        raise Difference(f"{where}: a second look at the same state gives another plan")
    if as_bytes(schedule(snapshot, now)) != first:
        raise Difference(f"{where}: the kept state and one made anew give different plans")
    return kept


def as_bytes(plan: Plan) -> bytes:
    """All of a plan, byte for byte."""
    return b"\n".join(repr(tuple(getattr(plan, field.name))).encode() for field in fields(plan))


def _shuffled(snapshot: Snapshot, chance: Random) -> Snapshot:
    """The same rows in another order (but the pools')."""
    return Snapshot(
        snapshot.pools,
        tuple(chance.sample(snapshot.teams, len(snapshot.teams))),
        tuple(chance.sample(snapshot.nodes, len(snapshot.nodes))),
        tuple(chance.sample(snapshot.workloads, len(snapshot.workloads))),
    )


def main(arguments: list[str]) -> int:
    """Run histories from the command line; says how many ran, what they met, and which differ."""
    parser = argparse.ArgumentParser(prog="histories", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of the first; each has the next one")
    parser.add_argument("--check", action="store_true", help="also look for broken rules in every plan")
    options = parser.parse_args(arguments)
    met: Counter[str] = Counter()
    differing = []
    began = time.process_time()
    for seed in range(options.seed, options.seed + options.count):
        try:
            met.update(run(seed, checked=options.check))
        except Exception as error:
            differing.append(seed)
            _say(f"seed {seed}: {error!r}")
        done = seed - options.seed + 1
        if done % PROGRESS == 0:
            _say(f"{done} of {options.count}, {len(differing)} differ")
    seconds = time.process_time() - began
    _say(
        f"{options.count} histories of up to {CYCLES} cycles, {len(differing)} differ, {seconds:.0f} s of CPU"
    )
    for name, times in sorted(met.items()):
        _say(f"  {name}: {times}")
    return 1 if differing else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
