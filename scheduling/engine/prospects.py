"""Whether a newcomer could find victims at all: what would be free if all went whom he could ever take (section 7).

It never says no to one who would find some. What it worked out is kept: GPUs that are taken and victims that are gone
leave newcomers less, never more. Only what could leave them more makes it look again: a branch that comes to be above
what is due to it; room in a branch of their own that was too full for them; somebody of another priority who joins the
roster; something that is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.ask import Ask
from scheduling.engine.capacity import Tally
from scheduling.engine.leavings import Leavings, Register, TallyOf
from scheduling.engine.ledger import Ledger
from scheduling.engine.lines import Sort
from scheduling.engine.rights import BY_ENTITLEMENT, BY_GUARANTEE, Party, Rights
from scheduling.engine.roster import Roster
from scheduling.engine.standing import Standing
from scheduling.engine.tree import ROOT
from scheduling.engine.types import ElasticPreemption
from scheduling.engine.yields import EVERYBODY, NOWHERE, Group, Need

Kind = tuple[int, int, int, Ask, int]
"""A newcomer's leaf, priority and size, what each of his pods asks, and how many there are."""


class Full(NamedTuple):
    """A branch of a newcomer's own that is too full for him, by one of the dues: so it is while it lacks less than
    ``room`` of what is due to it.

    ``relieved``: with what has joined the roster below it, all of which might leave for him.
    """

    branch: int
    by: int
    relieved: bool
    room: int


@dataclass(slots=True)
class Reach:
    """Whom the newcomers of one leaf, priority and size could take, as things stood at some ``time``.

    ``at_once`` are those whom they could take first, by branch and priority; ``group`` those whom they could ever. It
    is so, or they could take fewer, as long as the branches in ``full`` are too full for them: so it was when it was
    ``seen`` last.
    """

    time: int
    at_once: list[tuple[int, int | None]]
    group: Group
    full: tuple[Full, ...] = ()
    seen: int = -1


@dataclass(slots=True)
class _Hopeless:
    """Of whom it was found, at some ``time``, that none of them could find victims: so it is as long as branches are
    ``full``, none of the leavings has become more, and the gangs find no room among them; these need not be asked
    while no more nodes than ``freed`` have been given something back."""

    time: int
    sorts: Sequence[Sort]
    full: Sequence[Full]
    leavings: Sequence[tuple[Leavings, int]]
    gangs: Sequence[tuple[Leavings, Ask, int]]
    freed: int


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
        self._register = Register(ledger, rights, roster)
        self._reaches: dict[tuple[int, int, int], Reach] = {}
        self._hopeless: dict[tuple[int, int], _Hopeless] = {}
        self._needs: dict[Ask, Need] = {}
        self._same_needs: dict[tuple[object, ...], Need] = {}
        self._time = 0
        self._more = (0, 0)
        self._changes = (0, 0, 0, 0)
        self._vain: dict[Kind, frozenset[int]] = {}
        """Who finds nothing outside these nodes."""
        self._found: dict[Kind, frozenset[int]] = {}
        """Who might find something outside these nodes."""
        self._changed = [0] * len(self._tree)
        self._joined = [0] * len(self._tree)
        self._entitled = list(rights.entitled)
        self._used = list(self._usage.used)
        self._above = [self._dues_passed(branch) for branch in range(len(self._tree))]
        self._above_in: dict[tuple[int, int], list[int]] = {}
        self._dues = {BY_ENTITLEMENT: rights.entitled, BY_GUARANTEE: rights.accounts.quotas.guarantee}
        self._seen = (len(self._usage.changed), len(roster.joined))

    def renew(self) -> None:
        """Take note of what is due and used by now: entitlements were worked out anew, or a cycle was taken back."""
        entitled, used = self._rights.entitled, self._usage.used
        if self._entitled != entitled or self._used != used:
            self._time += 1
            rows = enumerate(zip(self._entitled, entitled, self._used, used, strict=True))
            self._note([at for at, (due, now_due, had, has) in rows if due != now_due or had != has])

    def _dues_passed(self, branch: int) -> int:
        """Which of entitlement and guarantee a branch is above."""
        used, guarantee = self._usage.used[branch], self._rights.accounts.quotas.guarantee[branch]
        return (BY_ENTITLEMENT if used > self._entitled[branch] else 0) | (
            BY_GUARANTEE if used > guarantee else 0
        )

    def any_at_once(self, party: Party) -> bool:
        """Whether there is anybody whom the newcomer may take as things stand."""
        return any(self._roster.any_in(*each) for each in self._reach(party).at_once)

    def might_take(
        self, party: Party, ask: Ask, pods: int, tally: TallyOf, closed: frozenset[int] = NOWHERE
    ) -> bool:
        """Whether so many pods might find a place, on nodes that are not ``closed``, if all went whom the newcomer
        could ever take. Who is told no is told so again, on fewer nodes too, as long as nothing could give anybody
        more; who is told yes, as long as nothing at all has changed."""
        self._forget_answers()
        kind = (party.leaf, party.priority, party.milli, ask, pods)
        vain, found = self._vain.get(kind), self._found.get(kind)
        if vain is not None and vain <= closed:
            return False
        if found is not None and closed <= found:
            return True
        leavings = self._register.of(self._reach(party).group)
        might = leavings.hold(ask, self._need(ask), pods, tally, closed)
        (self._found if might else self._vain)[kind] = closed
        return might

    def _forget_answers(self) -> None:
        """Forget those that may be others by now."""
        self._catch_up()
        more = (self._time, len(self._ledger.freed))
        if more != self._more:
            self._more = more
            self._vain.clear()
        changes = (len(self._ledger.later.changed), len(self._roster.changed), *more)
        if changes != self._changes:
            self._changes = changes
            self._found.clear()

    def group_might_do(self, group: Group, ask: Ask, pods: int, tally: TallyOf) -> bool:
        """Whether so many pods might find a place if all of a group went."""
        self._catch_up()
        return self._register.of(group).hold(ask, self._need(ask), pods, tally)

    def group(self, party: Party) -> Group:
        """Whom the newcomer could take, or could as soon as others have left."""
        return self._reach(party).group

    def most_below(self, party: Party, branch: int) -> int:
        """What those below a branch hold whose priority is not too high for the newcomer."""
        if party.reserved or self._rights.policy.elastic_preemption is not ElasticPreemption.PRIORITY:
            return self._roster.milli(branch, None)
        priorities = (*self._roster.lower(branch, party.priority), party.priority)
        return sum([self._roster.milli(branch, each) for each in priorities])

    def most_pods(self, party: Party, ask: Ask, tally: Tally) -> list[int]:
        """How many pods each domain of a tally might hold at most if all went whom the newcomer could ever take."""
        return self._register.of(self._reach(party).group).most_pods(ask, self._need(ask), tally)

    # --- All of a leaf --------------------------------------------------------------------------------------

    def are_hopeless(self, leaf: int, sorts: Sequence[Sort], tally: TallyOf) -> bool:
        """Whether none of the elastic newcomers of a leaf, of these sorts, might find victims, ceilings aside."""
        self._catch_up()
        key = (leaf, sorts[0].priority)
        known = self._hopeless.get(key)
        if known is not None and known.sorts is sorts and self._is_still(known, leaf, tally):
            return True
        found = self._found_hopeless(leaf, sorts, tally)
        if found is None:
            self._hopeless.pop(key, None)
            return False
        self._hopeless[key] = found
        return True

    def _is_still(self, known: _Hopeless, leaf: int, tally: TallyOf) -> bool:
        """Whether nothing has become more since."""
        if self._last_change(leaf) > known.time or not self._are_full(known.full):
            return False
        for leavings, version in known.leavings:
            if leavings.version != version:
                return False
        freed = len(self._ledger.freed)
        if known.freed != freed:
            if any(there.hold(ask, self._need(ask), pods, tally) for there, ask, pods in known.gangs):
                return False
            known.freed = freed
        return True

    def _found_hopeless(self, leaf: int, sorts: Sequence[Sort], tally: TallyOf) -> _Hopeless | None:
        """What it hangs on that nobody of a leaf could find victims; ``None`` if somebody might."""
        leavings: dict[Leavings, int] = {}
        full: dict[Full, None] = {}
        freed = len(self._ledger.freed)
        gangs: list[tuple[Leavings, Ask, int]] = []
        seen: set[tuple[int, int, Need]] = set()
        for sort in sorts:
            need = self._need(sort.ask)
            if sort.pods == 1 and (sort.priority, sort.milli, need) in seen:
                continue
            seen.add((sort.priority, sort.milli, need))
            reach = self._reach(Party("", leaf, sort.priority, reserved=False, milli=sort.milli))
            full.update(dict.fromkeys(reach.full))
            if not reach.at_once:
                continue
            there = self._register.of(reach.group)
            if there.hold(sort.ask, need, sort.pods, tally):
                return None
            leavings[there] = there.version
            if sort.pods > 1:
                gangs.append((there, sort.ask, sort.pods))
        return _Hopeless(self._time, sorts, _emptiest(full), tuple(leavings.items()), gangs, freed)

    # --- What could give more than before -------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Note where a branch came to be above what is due to it, or somebody joined, since the last look."""
        changed, joined = self._usage.changed, self._roster.joined
        if self._seen != (len(changed), len(joined)):
            self._time += 1
            paths = self._tree.paths
            self._note({branch for leaf in set(changed[self._seen[0] :]) for branch in paths[leaf]})
            self._welcome(joined[self._seen[1] :])
            self._seen = (len(changed), len(joined))
        self._register.catch_up()

    def _welcome(self, joined: Iterable[Standing]) -> None:
        """Note who has joined the roster: he may leave for a newcomer; who takes from his own team only, or where
        nobody had such a priority, has somebody more to take."""
        fresh: Counter[int] = Counter()
        for standing in joined:
            fresh[standing.workload.priority] += standing.milli
            self._changed[standing.leaf] = self._time
            for branch in self._tree.paths[standing.leaf]:
                self._joined[branch] += standing.milli
        if any(self._roster.milli(ROOT, priority) <= milli for priority, milli in fresh.items()):
            self._changed[ROOT] = self._time

    def _note(self, branches: Iterable[int]) -> None:
        """Note which of the branches came to be above what is due to them."""
        entitled = self._rights.entitled
        for branch in branches:
            self._used[branch], self._entitled[branch] = self._usage.used[branch], entitled[branch]
            above = self._dues_passed(branch)
            if branch and above != self._above[branch]:
                parent = self._tree.parents[branch]
                if above & ~self._above[branch]:
                    # For those beside it, and all below them.
                    self._changed[parent] = self._time
                self._above[branch] = above
                for by in self._dues:
                    self._above_in.pop((parent, by), None)
            self._register.note_excess(branch)

    def _last_change(self, leaf: int) -> int:
        """When something changed last that could give the newcomers of a leaf more."""
        changed = self._changed
        return max(changed[ROOT], *[changed[branch] for branch in self._tree.paths[leaf]])

    def _reach(self, party: Party) -> Reach:
        self._catch_up()
        key = (party.leaf, party.priority, party.milli)
        found = self._reaches.get(key)
        if found is not None and found.seen == self._time:
            return found
        if found is None or self._last_change(party.leaf) > found.time or not self._are_full(found.full):
            found = self._reaches[key] = self._look(party)
        found.seen = self._time
        return found

    def look_anew(self, party: Party) -> None:
        """Have it worked out anew whom a newcomer could take."""
        self._reaches.pop((party.leaf, party.priority, party.milli), None)
        self._found.clear()

    def _are_full(self, full: Iterable[Full]) -> bool:
        """Whether branches are still too full for a newcomer."""
        used, joined, dues = self._usage.used, self._joined, self._dues
        for branch, by, relieved, room in full:
            if dues[by][branch] - used[branch] + (joined[branch] if relieved else 0) >= room:
                return False
        return True

    # --- Whom he could take ---------------------------------------------------------------------------------

    def _look(self, party: Party) -> Reach:
        """Work out whom a newcomer could take: those of lower priority, those whom the fair-share rule gives him, and
        those of whom it could as soon as others have left who are nearer to him in the tree."""
        if party.reserved:
            return Reach(self._time, [(ROOT, None)], EVERYBODY)
        ordered = self._rights.policy.elastic_preemption is ElasticPreemption.PRIORITY
        own, equal = (None, party.priority) if ordered else (party.leaf, None)
        top = ROOT if own is None else own
        fair = self._fair(party, [0] * len(self._tree.paths[party.leaf]))
        at_once = [(branch, equal) for branch in fair]
        at_once.extend((top, priority) for priority in self._roster.lower(top, party.priority))
        full = self._full(party, None)
        if not at_once:
            return Reach(self._time, at_once, Group(party.priority, own), full)
        lower = self._lower(party, own)
        relief = lower
        if any(lower):
            fair = self._fair(party, lower)
        while True:
            relief = self._relief(lower, fair, equal)
            more = self._fair(party, relief)
            if more == fair:
                break
            fair = more
        group = Group(party.priority, own, tuple(sorted((each, by) for each, (_, by) in more.items())), equal)
        return Reach(self._time, at_once, group, (*full, *self._full(party, relief)))

    def _full(self, party: Party, relief: Sequence[int] | None) -> tuple[Full, ...]:
        """The lowest of a newcomer's own branches, by each due, that is too full for him even when so much has left of
        those on his way down."""
        used, path = self._usage.used, self._tree.paths[party.leaf]
        found = []
        for by, due in self._dues.items():
            for depth in range(len(path) - 1, -1, -1):
                mine = path[depth]
                room = party.milli if relief is None else party.milli - relief[depth]
                if due[mine] - used[mine] < room:
                    more = 0 if relief is None else self._joined[mine]
                    found.append(Full(mine, by, relief is not None, room + more))
                    break
        return tuple(found)

    def _fair(self, party: Party, relief: Sequence[int]) -> dict[int, tuple[int, int]]:
        """The branches that the fair-share rule gives him when so much has left of those on his way down: where each
        parts from his, and by which dues."""
        used, path = self._usage.used, self._tree.paths[party.leaf]
        found: dict[int, tuple[int, int]] = {}
        for by, due in self._dues.items():
            for depth in range(len(path) - 1, -1, -1):
                mine = path[depth]
                if used[mine] + party.milli - relief[depth] > due[mine]:
                    break
                for branch in self._children_above(self._tree.parents[mine], by):
                    if branch != mine:
                        found[branch] = (depth, by | found[branch][1] if branch in found else by)
        return found

    def _children_above(self, branch: int, by: int) -> list[int]:
        """The children of a branch that are above what is due to them."""
        found = self._above_in.get((branch, by))
        if found is None:
            found = [child for child in self._tree.children[branch] if self._above[child] & by]
            self._above_in[branch, by] = found
        return found

    def _lower(self, me: Party, own: int | None) -> list[int]:
        """What those of lower priority hold whom a newcomer may take, of each branch on his way down."""
        roster = self._roster
        below = self._tree.paths[me.leaf] if own is None else [own] * len(self._tree.paths[me.leaf])
        return [sum([roster.milli(at, each) for each in roster.lower(at, me.priority)]) for at in below]

    def _relief(
        self, lower: Sequence[int], fair: Mapping[int, tuple[int, int]], equal: int | None
    ) -> list[int]:
        """What would leave each branch on a newcomer's way down if all went of lower priority, and all of the fair
        branches."""
        relief = list(lower)
        for branch, (parting, _) in fair.items():
            milli = self._roster.milli(branch, equal)
            for depth in range(parting):
                relief[depth] += milli
        return relief

    def _need(self, ask: Ask) -> Need:
        found = self._needs.get(ask)
        if found is None:
            usable = [(each.kind, each.costs) for each in self._ledger.fleet.usable(ask)]
            key = (ask.whole, *usable)
            found = self._needs[ask] = self._same_needs.setdefault(key, Need(ask.whole, dict(usable)))
        return found


def _emptiest(full: Iterable[Full]) -> tuple[Full, ...]:
    """Of the same branches those that need the least room."""
    least: dict[tuple[int, int, bool], Full] = {}
    for each in full:
        key = each[:3]
        if key not in least or each.room < least[key].room:
            least[key] = each
    return tuple(least.values())
