"""Choosing victims: in order, only enough, and only for a newcomer who then fits (section 7).

The order of victims: pods above a minimum before whole workloads; Queued, Starting, Running; lower priority; the team
most above its entitlement (from the root down into the branch of highest U/E); least work lost; id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.capacity import Capacity
from scheduling.engine.court import Court, Plea
from scheduling.engine.fleet import Domain
from scheduling.engine.places import places_for
from scheduling.engine.standing import Standing, Tier, Unit, units_of
from scheduling.engine.tree import ROOT
from scheduling.engine.types import Rule

Cost = tuple[Tier, int, int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Victims:
    """A set of victims for one newcomer, in the order in which they were chosen, and where he fits when they are
    gone."""

    units: tuple[Unit, ...]
    rules: tuple[Rule, ...]
    domains: tuple[Domain, ...]

    @property
    def workloads(self) -> int:
        """How many workloads are touched."""
        return len({unit.standing.workload.id for unit in self.units})

    @property
    def cost(self) -> Cost:
        """What a set costs: whether anybody goes whole and the dearest victim's status and priority, then GPU-seconds
        lost in sum, GPUs, ids."""
        return (
            max(unit.tier for unit in self.units),
            sum(unit.lost_gpu_ms for unit in self.units),
            sum(unit.milli for unit in self.units),
            tuple(sorted({unit.standing.workload.id for unit in self.units})),
        )


class Search:
    """One search for victims: inside given domains, among given workloads, by the order of this page."""

    def __init__(
        self,
        court: Court,
        plea: Plea,
        domains: Sequence[Domain],
        candidates: Iterable[Standing],
    ) -> None:
        self._court = court
        self._plea = plea
        self._newcomer = plea.party
        self._domains = tuple(domains)
        self._capacity = Capacity(court.ledger, plea.ask, domains, plea.closed)
        self._leaving: dict[int, int] = {}
        self._chosen: list[Unit] = []
        self._gone: set[str] = set()
        self._tiers: dict[Tier, dict[int, list[tuple[Unit, bool]]]] = {}
        self._under_ceilings = False
        self._under_ceilings = self._passed() is None
        for standing in candidates:
            for unit in units_of(court.ledger, standing):
                concerned = self._capacity.concerns(unit)
                if concerned or not self._under_ceilings:
                    self._tiers.setdefault(unit.tier, {}).setdefault(standing.leaf, []).append(
                        (unit, concerned)
                    )
        for leaves in self._tiers.values():
            for entries in leaves.values():
                entries.sort(key=lambda entry: entry[0].key, reverse=True)
        self._order = [self._tiers[tier] for tier in sorted(self._tiers)]

    def run(self) -> Victims | None:
        """The victims by the plain order, or ``None`` if the lawful ones do not make room for the newcomer."""
        while not self._enough():
            unit = self._next()
            if unit is None:
                return None
            self._take(unit)
        self._give_back()
        rules = self._lawful(self._chosen)
        if rules is None or not self._chosen or self._ping_pong():
            return None
        return Victims(tuple(self._chosen), tuple(rules), self._domains)

    def _enough(self) -> bool:
        return self._fits() and self._passed() is None

    def _fits(self) -> bool:
        return self._capacity.holds(self._plea.pods)

    def _passed(self) -> int | None:
        """The branch whose ceiling the newcomer would still pass; none, if he passes none with nobody leaving."""
        if self._under_ceilings:
            return None
        passed = self._plea.ceiling_passed(self._court, self._leaving)
        return None if passed is None else passed.branch

    def _next(self) -> Unit | None:
        """The first unit of the order that is lawful and of use."""
        fits, passed = self._fits(), self._passed()
        for leaves in self._order:
            first: dict[int, Unit] = {}
            for leaf, entries in leaves.items():
                under = passed is not None and passed in self._court.rights.accounts.tree.paths[leaf]
                unit = self._first(entries, any_will_do=under, place_lacks=not fits)
                if unit is not None:
                    rule = self._court.rights.rule(self._newcomer, unit.party, self._leaving)
                    if rule is not None:
                        first[leaf] = unit
            if first:
                return self._most_above(first)
        return None

    def _most_above(self, first: Mapping[int, Unit]) -> Unit:
        """From the root down into the branch that is most above its entitlement; of equal ones whose unit comes
        first."""
        rights = self._court.rights
        leaves, depth = list(first), 0
        while len(leaves) > 1:
            branches: dict[int, list[int]] = {}
            for leaf in leaves:
                branches.setdefault(rights.accounts.tree.paths[leaf][depth], []).append(leaf)
            if len(branches) > 1:
                leaves = min(
                    branches.items(),
                    key=lambda item: (
                        -rights.above(item[0], self._newcomer, self._leaving),
                        min(first[leaf].key for leaf in item[1]),
                    ),
                )[1]
            depth += 1
        return first[leaves[0]]

    def _first(
        self, entries: list[tuple[Unit, bool]], *, any_will_do: bool, place_lacks: bool
    ) -> Unit | None:
        """The first unit of a team's list, which stands in reverse, that is still there and of use."""
        while entries and entries[-1][0].standing.workload.id in self._gone:
            entries.pop()
        if not (any_will_do or place_lacks):
            return None
        return next(
            (
                unit
                for unit, concerned in reversed(entries)
                if (any_will_do or concerned) and unit.standing.workload.id not in self._gone
            ),
            None,
        )

    def _take(self, unit: Unit) -> None:
        """Choose a unit. Of a workload that goes whole, only what was not chosen already counts."""
        standing = unit.standing
        if unit.whole:
            self._gone.add(standing.workload.id)
            gone = {pod.pod_index for each in self._chosen if each.standing is standing for pod in each.pods}
            unit = unit.without(self._court.ledger, frozenset(gone)) if gone else unit
        else:
            self._tiers[unit.tier][standing.leaf].remove((unit, self._capacity.concerns(unit)))
        self._chosen.append(unit)
        self._change(unit, 1)

    def _change(self, unit: Unit, sign: int) -> None:
        self._capacity.change(unit, sign)
        milli = sign * unit.milli
        for branch in (ROOT, *self._court.rights.accounts.tree.paths[unit.standing.leaf]):
            self._leaving[branch] = self._leaving.get(branch, 0) + milli

    def _give_back(self) -> None:
        """Spare everybody without whom the newcomer fits, last chosen first."""
        for unit in reversed(tuple(self._chosen)):
            if not unit.whole and any(each.whole and each.standing is unit.standing for each in self._chosen):
                continue
            self._change(unit, -1)
            if self._enough():
                self._chosen.remove(unit)
            else:
                self._change(unit, 1)

    def _lawful(self, units: Sequence[Unit]) -> list[Rule] | None:
        """By which rule each of the units may be taken, one after the other; ``None`` if one of them may not."""
        before: dict[int, int] = {}
        rules = []
        for unit in units:
            rule = self._court.rights.rule(self._newcomer, unit.party, self._leaving, before)
            if rule is None:
                return None
            rules.append(rule)
            for branch in self._court.rights.accounts.tree.paths[unit.standing.leaf]:
                before[branch] = before.get(branch, 0) + unit.milli
        return rules

    def _ping_pong(self) -> bool:
        """Whether somebody who goes whole could take his place back from the newcomer at once."""
        if self._newcomer.reserved:
            return False
        rights = self._court.rights
        return any(
            unit.whole and rights.returns(self._newcomer, unit.party, self._leaving) for unit in self._chosen
        )


def find_victims(court: Court, plea: Plea, candidates: Sequence[Standing]) -> Victims | None:
    """The victims whose departure lets the newcomer start, ``None`` if nobody lawfully can.

    First by the plain order. Where that takes more than one, or none serves, and the newcomer needs one place (a
    device, a node, a domain), also in each place that would do; the cheapest set wins.
    """
    levels = court.ledger.fleet.domains(plea.ask)
    if not levels or not _any_lawful(court, plea, candidates):
        return None
    widest = levels[-1]
    best = Search(court, plea, widest, candidates).run()
    if best is not None and len(best.units) == 1:
        return best
    for bound, place, nearby in places_for(court, plea, widest, candidates):
        if best is not None and bound > best.cost[0]:
            break
        found = Search(court, plea, [place], nearby).run()
        if found is not None and (best is None or found.cost < best.cost):
            # Elsewhere fewer of them may do.
            few = list({unit.standing.workload.id: unit.standing for unit in found.units}.values())
            best = Search(court, plea, widest, few).run() or best
    return best


def _any_lawful(court: Court, plea: Plea, candidates: Sequence[Standing]) -> bool:
    """Whether the newcomer may take anybody at all; what makes others lawful later is that somebody is taken
    first."""
    asked: dict[tuple[int, int], bool] = {}
    for standing in candidates:
        key = (standing.leaf, standing.workload.priority)
        if key not in asked:
            asked[key] = court.rights.rule(plea.party, standing.party(), {}) is not None
        if asked[key]:
            return True
    return False
