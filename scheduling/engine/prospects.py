"""Whether a newcomer could find victims at all: what would be free if all went whom he could ever take (section 7).

It never says no to one who would find some. What it worked out is kept: GPUs that are taken and victims that are gone
leave newcomers less, never more. Only what could leave them more makes it look again: a branch that comes to be above
what is due to it, or falls; somebody who joins the roster; something that is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from scheduling.engine.ask import Ask
from scheduling.engine.capacity import Tally
from scheduling.engine.ledger import Ledger
from scheduling.engine.rights import Party, Rights
from scheduling.engine.roster import Roster
from scheduling.engine.tree import ROOT
from scheduling.engine.types import ElasticPreemption
from scheduling.engine.yields import EVERYBODY, Group, Need, Yields


@dataclass(slots=True, eq=False)
class Reach:
    """Whom the newcomers of one leaf, priority and size could take, as things stood at some ``time``.

    ``at_once`` are those whom they could take first, by branch and priority. ``yields`` is what each group would
    leave, ``both`` what several would on the nodes where they lie together.
    """

    time: int
    at_once: list[tuple[int, int | None]]
    group: Group
    yields: list[Yields] = field(default_factory=list)
    both: Yields | None = None
    sizes: list[int] = field(default_factory=list)
    most_pods: dict[Ask, list[int]] = field(default_factory=dict)
    seen: tuple[int, int, int] | None = None


class Prospects:
    """What the newcomers of one class, reserved or elastic, could hope for in one pool.

    :meth:`renew` is for whoever begins a cycle.
    """

    def __init__(self, ledger: Ledger, rights: Rights, roster: Roster) -> None:
        self._ledger = ledger
        self._rights = rights
        self._roster = roster
        self._tree = rights.accounts.tree
        self._usage = rights.accounts.usage
        self._reaches: dict[tuple[int, int, int], Reach] = {}
        self._of_groups: dict[Group, Reach] = {}
        self._yields: dict[Group, Yields] = {}
        self._needs: dict[Ask, Need] = {}
        self._same_needs: dict[tuple[object, ...], Need] = {}
        self._time = 0
        self._changed = [0] * len(self._tree)
        self._entitled = list(rights.entitled)
        self._used = list(self._usage.used)
        self._above = [self._dues_passed(branch) for branch in range(len(self._tree))]
        self._seen = (len(self._usage.changed), len(roster.joined))

    def renew(self) -> None:
        """Take note of what is due and used by now: entitlements were worked out anew, or a cycle was taken back."""
        branches = range(len(self._tree))
        if self._entitled != self._rights.entitled:
            self._entitled = list(self._rights.entitled)
            self._reaches.clear()
            self._above = [self._dues_passed(branch) for branch in branches]
        if self._used != self._usage.used:
            self._time += 1
            self._note(branches)

    def _dues_passed(self, branch: int) -> int:
        """Of entitlement and guarantee, how many a branch is above."""
        used, guarantee = self._usage.used[branch], self._rights.accounts.quotas.guarantee[branch]
        return (used > self._entitled[branch]) + (used > guarantee)

    def any_at_once(self, party: Party) -> bool:
        """Whether there is anybody whom the newcomer may take as things stand."""
        return any(self._roster.any_in(*each) for each in self._reach(party).at_once)

    def might_take(self, party: Party, ask: Ask, pods: int, tally: Callable[[], Tally | None]) -> bool:
        """Whether so many pods might find a place if all went whom the newcomer could ever take.

        For several pods, the ``tally`` says what the domains hold as things stand.
        """
        return self._might_hold(self._reach(party), ask, pods, tally)

    def group_might_do(self, group: Group, ask: Ask, pods: int, tally: Callable[[], Tally | None]) -> bool:
        """Whether so many pods might find a place if all of a group went."""
        reach = self._of_groups.get(group)
        if reach is None:
            reach = self._of_groups[group] = Reach(self._time, [], group)
        return self._might_hold(reach, ask, pods, tally)

    def group(self, party: Party) -> Group:
        """Whom the newcomer could take, or could as soon as others have left."""
        return self._reach(party).group

    def _yields_within(self, group: Group) -> list[Yields]:
        """What those of lower priority would leave, and each of the fair branches."""
        return [self._yields_of(each) for each in group.alone()]

    def _might_hold(self, reach: Reach, ask: Ask, pods: int, tally: Callable[[], Tally | None]) -> bool:
        """Whether so many pods might find a place if all within reach went."""
        self._refresh(reach)
        if pods == 1:
            need = self._need(ask)
            return any(each.meet(need) for each in reach.yields) or bool(reach.both and reach.both.meet(need))
        return max(self._domains(reach, ask, tally()), default=0) >= pods

    def most_below(self, party: Party, branch: int) -> int:
        """What those below a branch hold whose priority is not too high for the newcomer."""
        if party.reserved or self._rights.policy.elastic_preemption is not ElasticPreemption.PRIORITY:
            return self._roster.milli(branch, None)
        priorities = (*self._roster.lower(branch, party.priority), party.priority)
        return sum([self._roster.milli(branch, each) for each in priorities])

    def most_pods(self, party: Party, ask: Ask, tally: Tally) -> list[int]:
        """How many pods each domain of a tally might hold at most if all went whom the newcomer could ever take."""
        reach = self._reach(party)
        self._refresh(reach)
        return self._domains(reach, ask, tally)

    # --- What could give more than before -------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Note where a branch came to be above what is due to it or fell, or somebody joined, since the last look."""
        changed, joined = self._usage.changed, self._roster.joined
        if self._seen == (len(changed), len(joined)):
            return
        self._time += 1
        paths = self._tree.paths
        self._note({branch for leaf in set(changed[self._seen[0] :]) for branch in paths[leaf]})
        for standing in joined[self._seen[1] :]:
            for branch in paths[standing.leaf]:
                self._changed[branch] = self._time
        self._seen = (len(changed), len(joined))

    def _note(self, branches: Iterable[int]) -> None:
        """Note which of the branches fell, or came to be above what is due to them."""
        for branch in branches:
            used, above = self._usage.used[branch], self._dues_passed(branch)
            if used < self._used[branch]:
                self._changed[branch] = self._time
            if above > self._above[branch]:
                # For those beside it, and all below them.
                self._changed[self._tree.parents[branch]] = self._time
            self._used[branch], self._above[branch] = used, above

    def _reach(self, party: Party) -> Reach:
        self._catch_up()
        key = (party.leaf, party.priority, party.milli)
        found = self._reaches.get(key)
        if found is not None:
            changed = self._changed
            if (
                max(changed[ROOT], *[changed[branch] for branch in self._tree.paths[party.leaf]])
                <= found.time
            ):
                return found
        found = self._reaches[key] = self._look(party)
        return found

    # --- Whom he could take ---------------------------------------------------------------------------------

    def _look(self, party: Party) -> Reach:
        """Work out whom a newcomer could take: those of lower priority, those whom the fair-share rule gives him, and
        those of whom it could as soon as others have left who are nearer to him in the tree."""
        if party.reserved:
            return Reach(self._time, [(ROOT, None)], EVERYBODY)
        ordered = self._rights.policy.elastic_preemption is ElasticPreemption.PRIORITY
        own, equal = (None, party.priority) if ordered else (party.leaf, None)
        top = ROOT if own is None else own
        at_once: list[tuple[int, int | None]] = [
            (branch, equal) for branch, *_ in self._rights.fair_branches(party, {})
        ]
        at_once.extend((top, priority) for priority in self._roster.lower(top, party.priority))
        if not at_once:
            return Reach(self._time, at_once, Group(party.priority, own))
        fair = self._fair(party, self._relief(party, {}, own, equal))
        while True:
            more = self._fair(party, self._relief(party, fair, own, equal))
            if more == fair:
                break
            fair = more
        group = Group(party.priority, own, tuple(sorted((each, by) for each, (_, by) in more.items())), equal)
        return Reach(self._time, at_once, group)

    def _fair(self, party: Party, relief: dict[int, int]) -> dict[int, tuple[int, int]]:
        """The branches that the fair-share rule gives him when so much has left: where each parts from his, and by
        which dues."""
        found: dict[int, tuple[int, int]] = {}
        for branch, depth, by in self._rights.fair_branches(party, relief):
            found[branch] = (depth, by | found[branch][1] if branch in found else by)
        return found

    def _relief(
        self, me: Party, fair: dict[int, tuple[int, int]], own: int | None, equal: int | None
    ) -> dict[int, int]:
        """What would leave each branch on a newcomer's way down if all went of lower priority, and all of the fair
        branches."""
        roster = self._roster
        leaving = [(depth, roster.milli(branch, equal)) for branch, (depth, _) in fair.items()]
        relief = {}
        for depth, branch in enumerate(self._tree.paths[me.leaf]):
            below = branch if own is None else own
            lower = sum([roster.milli(below, each) for each in roster.lower(below, me.priority)])
            relief[branch] = lower + sum([milli for at, milli in leaving if at > depth])
        return relief

    # --- What they would leave ------------------------------------------------------------------------------

    def _yields_of(self, group: Group) -> Yields:
        found = self._yields.get(group)
        if found is None:
            found = self._yields[group] = Yields(self._ledger, self._rights, self._roster, group)
        return found

    def _refresh(self, reach: Reach) -> None:
        """Bring up to date what is left where; several groups may lie on one node."""
        seen = (len(self._ledger.freed), len(self._roster.joined), len(self._usage.changed))
        if reach.seen == seen:
            return
        if reach.seen is None:
            reach.yields = self._yields_within(reach.group)
        elif reach.seen[:2] != seen[:2]:
            reach.most_pods.clear()
        reach.seen = seen
        sizes = [len(each.refreshed().most) for each in reach.yields]
        if sizes != reach.sizes:
            reach.sizes = sizes
            lying = Counter(rank for each in reach.yields[1:] for rank in each.most)
            both = [rank for rank, groups in lying.items() if groups > 1]
            reach.both = Yields(self._ledger, self._rights, self._roster, reach.group, both) if both else None
        elif reach.both is not None:
            reach.both.refreshed()

    def _domains(self, reach: Reach, ask: Ask, tally: Tally | None) -> list[int]:
        """How many pods of an ask the domains would hold at most."""
        found = reach.most_pods.get(ask)
        if found is not None or tally is None:
            return found or []
        kind_of, need = self._ledger.fleet.kind_of, self._need(ask)
        totals = reach.most_pods[ask] = list(tally.totals)
        nodes: dict[int, list[int]] = {}
        for each in (*reach.yields, *([reach.both] if reach.both else ())):
            nodes.update(each.most)
        for rank, most in nodes.items():
            if rank in tally.where:
                more = need.pods(kind_of[rank], most) - tally.pods[rank]
                totals[tally.where[rank][0]] += max(0, more)
        return totals

    def _need(self, ask: Ask) -> Need:
        found = self._needs.get(ask)
        if found is None:
            usable = [(each.kind, each.costs) for each in self._ledger.fleet.usable(ask)]
            key = (ask.whole, *usable)
            found = self._needs[ask] = self._same_needs.setdefault(key, Need(ask.whole, dict(usable)))
        return found
