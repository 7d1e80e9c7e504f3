"""Whether a newcomer could find victims at all: what would be free if all went whom he could ever take (section 7).

It never says no to one who would find some. What it worked out is kept: GPUs that are taken and victims that are gone
leave newcomers less, never more. Only what could leave them more makes it look again: a branch that comes to be above
what is due to it, or falls; somebody who joins the roster; something that is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from scheduling.engine.ask import Ask
from scheduling.engine.capacity import Tally
from scheduling.engine.ledger import Ledger
from scheduling.engine.rights import Party, Rights
from scheduling.engine.roster import Roster
from scheduling.engine.standing import Standing
from scheduling.engine.tree import ROOT, Tree
from scheduling.engine.types import GPU_MILLI, ElasticPreemption


@dataclass(frozen=True, slots=True)
class Group:
    """Whom some newcomers may take: of all teams, or the ``own`` one, those of priority ``below`` some; and of the
    ``fair`` branches those of priority ``equal``. No priority: whatever it is."""

    below: int | None
    own: int | None
    fair: tuple[int, ...] = ()
    equal: int | None = None

    def has(self, standing: Standing, tree: Tree) -> bool:
        """Whether the workload is one of them."""
        return self.is_lower(standing) or bool(self.through(standing, tree))

    def is_lower(self, standing: Standing) -> bool:
        """Whether it is one of those of lower priority."""
        below = self.below is None or standing.workload.priority < self.below
        return below and self.own in (None, standing.leaf)

    def through(self, standing: Standing, tree: Tree) -> list[int]:
        """The fair branches where it is one of those who could go."""
        if self.equal not in (None, standing.workload.priority):
            return []
        return [branch for branch in tree.paths[standing.leaf] if branch in self.fair]

    def ranks(self, roster: Roster) -> Collection[int]:
        """The nodes where those of the fair branches lie; where there are none, the others."""
        top = ROOT if self.own is None else self.own
        if self.fair:
            groups: list[tuple[int, int | None]] = [(branch, self.equal) for branch in self.fair]
        elif self.below is None and self.own is None:
            return roster.all_ranks()
        else:
            groups = [(top, priority) for priority in roster.lower(top, self.below or 0)]
        cells = [cell for group in groups for cell in roster.cells(*group)]
        return {rank for cell in cells for each in roster.of(cell) for rank in roster.ranks(each)}


EVERYBODY = Group(None, None)


@dataclass(slots=True, eq=False)
class Need:
    """What one pod needs of a node's devices: one object for all asks that need the same.

    ``costs`` are those on each kind of node that lets the pod in.
    """

    whole: int
    costs: dict[int, tuple[int, ...]]

    def pods(self, kind: int, most: Sequence[int]) -> int:
        """For how many such pods a node of this kind with so much on its devices has enough of them."""
        costs = self.costs.get(kind)
        if costs is None:
            return 0
        if self.whole:
            free = [1 for left, cost in zip(most, costs, strict=True) if left >= GPU_MILLI and cost]
            return len(free) // self.whole
        return sum([left // cost for left, cost in zip(most, costs, strict=True) if cost and left > 0])


class Yields:
    """What the nodes where some group lies would have on each device if all went of it that may; by now it may be
    less.

    A fair branch gives no more than brings it down to what is due to it: all but the last of its victims together are
    less than its excess. ``among``: on these nodes only.
    """

    def __init__(
        self, ledger: Ledger, rights: Rights, roster: Roster, group: Group, among: Iterable[int] | None = None
    ) -> None:
        self._ledger = ledger
        self._rights = rights
        self._roster = roster
        self._tree = rights.accounts.tree
        self._group = group
        self._among = None if among is None else frozenset(among)
        ranks = group.ranks(roster) if self._among is None else self._among
        self.most: dict[int, list[int]] = {}
        self._excess = self._excesses()
        self._look(ranks)
        self._seen = (len(ledger.freed), len(roster.joined))
        self._looked = len(ledger.later.changed)
        self._answers: dict[Need, bool] = {}

    def _look(self, ranks: Iterable[int]) -> None:
        kind_of = self._ledger.fleet.kind_of
        for rank in ranks:
            if kind_of[rank] >= 0:
                self.most[rank] = self._most(rank)

    def _most(self, rank: int) -> list[int]:
        """What a node would have on each device."""
        most = list(self._ledger.later.rooms[rank].gpu)
        fair: dict[tuple[int, int], list[int]] = {}
        everybody = self._group == EVERYBODY
        for pods in self._roster.on(rank):
            standing = pods[0][0]
            freely = everybody or self._group.is_lower(standing)
            through = [] if freely else self._group.through(standing, self._tree)
            if not (freely or through):
                continue
            for _, _, picks in pods:
                for at, milli in picks:
                    if len(through) == 1:
                        fair.setdefault((at, through[0]), []).append(milli)
                    else:
                        most[at] += milli
        for (at, branch), shares in fair.items():
            if self._excess[branch]:
                most[at] += min(sum(shares), self._excess[branch] - 1 + max(shares))
        return most

    def _excesses(self) -> dict[int, int]:
        """By how much each fair branch is above what is due to it, as far as that matters for one device."""
        return {branch: max(0, min(GPU_MILLI, self._rights.excess(branch))) for branch in self._group.fair}

    def refreshed(self) -> Yields:
        """The same, after a look at where there may be more by now."""
        freed, joined = self._ledger.freed, self._roster.joined
        if self._seen != (len(freed), len(joined)):
            again = {rank for rank in freed[self._seen[0] :] if rank in self.most}
            for standing in joined[self._seen[1] :]:
                if self._group.has(standing, self._tree):
                    ranks = self._roster.ranks(standing)
                    again.update(rank for rank in ranks if self._among is None or rank in self._among)
            self._seen = (len(freed), len(joined))
            if again:
                self._look(again)
                self._answers.clear()
        excess = self._excesses()
        if any(milli > self._excess[branch] for branch, milli in excess.items()):
            self._excess = excess
            self._look(tuple(self.most))
            self._answers.clear()
        return self

    def meet(self, need: Need) -> bool:
        """Whether one of the nodes has the devices for a pod."""
        found = self._answers.get(need)
        if found is None:
            found = self._answers[need] = self._meet(need)
        if found and self._looked != len(self._ledger.later.changed):
            self._looked = len(self._ledger.later.changed)
            self._excess = self._excesses()
            self._look(tuple(self.most))
            self._answers.clear()
            found = self._answers[need] = self._meet(need)
        return found

    def _meet(self, need: Need) -> bool:
        kind_of = self._ledger.fleet.kind_of
        return any(need.pods(kind_of[rank], most) for rank, most in self.most.items())


@dataclass(slots=True, eq=False)
class Reach:
    """Whom the newcomers of one leaf, priority and size could take, as things stood at some ``time``.

    ``at_once`` are those whom they could take first, by branch and priority. ``yields`` is what each group would
    leave, ``both`` what several would on the nodes where they lie together.
    """

    time: int
    at_once: list[tuple[int, int | None]]
    group: Group
    yields: list[Yields]
    both: Yields | None = None
    sizes: list[int] = field(default_factory=list)
    most_pods: dict[Ask, list[int]] = field(default_factory=dict)
    seen: tuple[int, int] = (0, 0)


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
            reach = self._of_groups[group] = Reach(self._time, [], group, self._yields_within(group))
        return self._might_hold(reach, ask, pods, tally)

    def _yields_within(self, group: Group) -> list[Yields]:
        """What those of lower priority would leave, and each of the fair branches."""
        alone = [Group(group.below, group.own, (branch,), group.equal) for branch in group.fair]
        return [self._yields_of(each) for each in (Group(group.below, group.own), *alone)]

    def _might_hold(self, reach: Reach, ask: Ask, pods: int, tally: Callable[[], Tally | None]) -> bool:
        """Whether so many pods might find a place if all within reach went."""
        self._refresh(reach)
        if pods == 1:
            need = self._need(ask)
            return any(each.meet(need) for each in reach.yields) or bool(reach.both and reach.both.meet(need))
        return max(self._domains(reach, ask, tally()), default=0) >= pods

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
            return Reach(self._time, [(ROOT, None)], EVERYBODY, [self._yields_of(EVERYBODY)])
        ordered = self._rights.policy.elastic_preemption is ElasticPreemption.PRIORITY
        own, equal = (None, party.priority) if ordered else (party.leaf, None)
        top = ROOT if own is None else own
        fair = dict(self._rights.fair_branches(party, {}))
        relief = self._relief(party, fair, own, equal)
        ever = dict(self._rights.fair_branches(party, relief)) if relief else fair
        at_once: list[tuple[int, int | None]] = [(branch, equal) for branch in fair]
        at_once.extend((top, priority) for priority in self._roster.lower(top, party.priority))
        group = Group(party.priority, own, tuple(sorted(ever)), equal)
        return Reach(self._time, at_once, group, self._yields_within(group))

    def _relief(self, me: Party, fair: dict[int, int], own: int | None, equal: int | None) -> dict[int, int]:
        """What would leave each branch on a newcomer's way down if all went whom he could take, as far as that could
        give him others: nothing, if it could not."""
        roster, tree = self._roster, self._tree
        path = tree.paths[me.leaf]
        beside = dict(fair)
        for depth, parent in enumerate((ROOT, *path[:-1])):
            for branch in tree.children[parent]:
                if self._above[branch] and branch != path[depth] and branch not in beside:
                    beside[branch] = depth
        if len(beside) == len(fair):
            return {}
        relief = {}
        for depth, branch in enumerate(path):
            below = branch if own is None else own
            relief[branch] = sum([roster.milli(below, each) for each in roster.lower(below, me.priority)])
            relief[branch] += sum([roster.milli(each, equal) for each, at in beside.items() if at > depth])
        return relief

    # --- What they would leave ------------------------------------------------------------------------------

    def _yields_of(self, group: Group) -> Yields:
        found = self._yields.get(group)
        if found is None:
            found = self._yields[group] = Yields(self._ledger, self._rights, self._roster, group)
        return found

    def _refresh(self, reach: Reach) -> None:
        """Bring up to date what is left where; several groups may lie on one node."""
        sizes = [len(each.refreshed().most) for each in reach.yields]
        if sizes != reach.sizes:
            reach.sizes = sizes
            lying = Counter(rank for each in reach.yields[1:] for rank in each.most)
            both = [rank for rank, groups in lying.items() if groups > 1]
            reach.both = Yields(self._ledger, self._rights, self._roster, reach.group, both) if both else None
        elif reach.both is not None:
            reach.both.refreshed()
        seen = (len(self._ledger.freed), len(self._roster.joined))
        if reach.seen != seen:
            reach.seen = seen
            reach.most_pods.clear()

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
