"""What would be left on the nodes if all of a group went, kept up to date as long as the ledger lives (section 7).

It may be less by now, never more: a workload that takes devices or leaves the index is not looked at, one that gives
back or joins it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from scheduling.acceleration.eligible_victims import EligibleVictims, Joined
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.victim_groups import NOWHERE, FreeableDevices, Need, VictimGroup
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import PreemptionPolicy

TallyOf = Callable[[PodRequest], IndexedPods | None]
"""What the domains of a request's widest level hold as things stand."""
MOST_JOINED_SINCE = 256
"""When so many have joined the index since the last look, it is quicker to look at all anew."""
MOST_GROUPS = 4_000
"""So many groups are kept before all are forgotten."""


class _Count:
    """How many pods of a request each domain of a tally would hold at most."""

    def __init__(
        self, tally: IndexedPods, need: Need, kind_of: Sequence[int], most: Mapping[int, Sequence[int]]
    ) -> None:
        self._tally = tally
        self._need = need
        self._kind_of = kind_of
        self.totals = list(tally.totals)
        lying = [rank for rank in most if rank in tally.where]
        pods = need.pods_on([kind_of[rank] for rank in lying], [most[rank] for rank in lying])
        for rank, count in zip(lying, pods.tolist(), strict=True):
            more = count - tally.pods[rank]
            if more > 0:
                self.totals[tally.where[rank][0]] += more
        self._risen = list(tally.risen)
        self._rises: int | None = tally.rises
        self._most = max(self.totals, default=0)
        self._exact_at = tally.rises

    @property
    def is_exact(self) -> bool:
        """Whether no node has come to hold more since it was counted."""
        return self._rises == self._exact_at == self._tally.rises

    @property
    def most(self) -> int:
        """That of the best domain; too much rather than too little."""
        tally = self._tally
        if self._rises != tally.rises:
            self._rises = tally.rises
            rows = zip(self.totals, tally.risen, self._risen, strict=True)
            self._most = max([total + now - then for total, now, then in rows], default=0)
        return self._most

    def rise(self, rank: int, before: Sequence[int], after: Sequence[int]) -> None:
        """There is more on a node than before."""
        if rank in self._tally.where:
            kind = self._kind_of[rank]
            more = self._need.pods(kind, after) - self._need.pods(kind, before)
            if more > 0:
                self.totals[self._tally.where[rank][0]] += more
                self._rises, self._exact_at = None, -1


class GroupBounds:
    """What a group would leave: those of lower priority, those of each fair branch, and all of them on the nodes where
    several branches lie together."""

    def __init__(
        self,
        ledger: KeptLedger,
        parts: Sequence[FreeableDevices],
        together: Callable[[GroupBounds, list[int]], FreeableDevices],
    ) -> None:
        self._freed = ledger.freed
        self.parts = parts
        self.both: FreeableDevices | None = None
        self.is_stale = True
        self._version = 0
        self._together = together
        self._is_complete = False
        self._counts: dict[PodRequest, _Count] = {}
        self._infeasible: dict[Need, frozenset[int]] = {}
        """What none of the parts meets outside these nodes."""
        self._too_many: dict[PodRequest, tuple[int, int]] = {}
        """How many pods no domain held, when so many nodes had been given something back."""
        for part in parts:
            part.heirs.append(self)

    @property
    def version(self) -> int:
        """How often it has become more."""
        self._refresh()
        return self._version

    def spoil(self) -> None:
        """From now on nothing keeps it up to date."""
        self._version += 1

    def rise(self, part: FreeableDevices, rank: int, before: Sequence[int] | None) -> None:
        """A part would leave more on a node than before; ``before`` is ``None`` where it did not lie there."""
        self._version += 1
        self._infeasible.clear()
        self._too_many.clear()
        if before is None:
            self._is_complete = False
        elif part is self.both or self.both is None or rank not in self.both.most:
            for count in self._counts.values():
                count.rise(rank, before, part.most[rank])

    def hold(
        self, request: PodRequest, need: Need, pods: int, tally: TallyOf, closed: frozenset[int] = NOWHERE
    ) -> bool:
        """Whether so many pods might find a place; one alone, on a node that is not ``closed``. For several, the
        ``tally`` says what the domains hold as things stand."""
        self._refresh()
        if pods == 1:
            return self._meet(need, closed)
        freed = len(self._freed)
        then, too_many = self._too_many.get(request, (freed, pods + 1))
        if then == freed and too_many <= pods:
            return False
        if self._hold_gang(request, need, pods, tally):
            return True
        self._too_many[request] = (freed, pods)
        return False

    def _hold_gang(self, request: PodRequest, need: Need, pods: int, tally: TallyOf) -> bool:
        """Whether a domain holds so many pods."""
        widest = tally(request)
        if widest is None:
            return False
        count = self._counts.get(request)
        if count is not None and (count.most < pods or count.is_exact):
            return count.most >= pods
        return max(self.most_pods(request, need, widest), default=0) >= pods

    def _meet(self, need: Need, closed: frozenset[int]) -> bool:
        """Whether a part has a node that is not ``closed`` with the devices for a pod."""
        infeasible = self._infeasible.get(need)
        if infeasible is not None and infeasible <= closed:
            return False
        parts = self.parts if self.both is None else (*self.parts, self.both)
        if any(part.meet(need, closed) for part in parts):
            return True
        self._infeasible[need] = closed
        return False

    def most_pods(self, request: PodRequest, need: Need, tally: IndexedPods) -> list[int]:
        """How many pods of a request the domains would hold at most."""
        self._refresh()
        count = self._counts.get(request)
        if count is None or not count.is_exact:
            most: dict[int, list[int]] = {}
            for part in (*self.parts, *([self.both] if self.both else ())):
                most.update(part.most)
            count = self._counts[request] = _Count(tally, need, self.parts[0].kind_of, most)
        return count.totals

    def _refresh(self) -> None:
        """Look again where there may be more; see where several branches lie together, if that has changed."""
        if self.is_stale:
            self.is_stale = False
            for part in self.parts if self.both is None else (*self.parts, self.both):
                part.refresh()
        if not self._is_complete:
            self._is_complete = True
            lying = Counter(rank for part in self.parts[1:] for rank in part.most)
            both = [rank for rank, branches in lying.items() if branches > 1]
            self._counts.clear()
            if both or self.both:
                self.both = self._together(self, both)


class GroupBoundsIndex:
    """The bounds of all groups that were asked for."""

    def __init__(
        self, ledger: KeptLedger, preemption_policy: PreemptionPolicy, eligible: EligibleVictims
    ) -> None:
        self._ledger = ledger
        self._preemption_policy = preemption_policy
        self._eligible = eligible
        self._paths = preemption_policy.accounts.tree.paths
        self._parts: dict[VictimGroup, FreeableDevices] = {}
        self._of: dict[VictimGroup, GroupBounds] = {}
        self._by_lower: dict[tuple[int | None, int | None], dict[FreeableDevices, None]] = {}
        self._pods_on: dict[int, dict[FreeableDevices, None]] = {}
        self._through: dict[int, dict[FreeableDevices, None]] = {}
        self._seen = (len(ledger.freed), len(eligible.joined))

    def of(self, group: VictimGroup) -> GroupBounds:
        """Those of a group. After :meth:`catch_up`."""
        found = self._of.get(group)
        if found is None:
            if len(self._of) >= MOST_GROUPS:
                self._forget()
            parts = [self._part(each) for each in group.alone()]
            found = self._of[group] = GroupBounds(self._ledger, parts, self._together(group))
        return found

    def _part(self, group: VictimGroup) -> FreeableDevices:
        found = self._parts.get(group)
        if found is None:
            lower = [self._part(VictimGroup(group.below, group.own))] if group.fair else []
            found = self._parts[group] = self._kept(
                FreeableDevices(self._ledger, self._preemption_policy, self._eligible, group, parts=lower)
            )
        return found

    def _together(self, group: VictimGroup) -> Callable[[GroupBounds, list[int]], FreeableDevices]:
        """Makes what all of a group would leave on some nodes, in place of what was made before."""

        def make(group_bounds: GroupBounds, ranks: list[int]) -> FreeableDevices:
            if group_bounds.both is not None:
                self._strike(group_bounds.both)
            found = self._kept(
                FreeableDevices(
                    self._ledger,
                    self._preemption_policy,
                    self._eligible,
                    group,
                    parts=group_bounds.parts,
                    among=ranks,
                )
            )
            found.heirs.append(group_bounds)
            return found

        return make

    def _kept(self, yields: FreeableDevices) -> FreeableDevices:
        """Them, to be kept up to date."""
        self._by_lower.setdefault((yields.group.below, yields.group.own), {})[yields] = None
        for rank in yields.most:
            self._pods_on.setdefault(rank, {})[yields] = None
        for branch, _ in yields.group.fair:
            self._through.setdefault(branch, {})[yields] = None
        return yields

    def _strike(self, yields: FreeableDevices) -> None:
        del self._by_lower[yields.group.below, yields.group.own][yields]
        for rank in yields.ranks:
            del self._pods_on[rank][yields]
        for branch, _ in yields.group.fair:
            del self._through[branch][yields]

    def _forget(self) -> None:
        """Forget all; a look at some of it tells that it is not that any more."""
        for group_bounds in self._of.values():
            group_bounds.spoil()
        for kept in (self._parts, self._of, self._by_lower, self._pods_on, self._through):
            kept.clear()

    # --- What could be more than before ----------------------------------------------------------------------

    def catch_up(self) -> bool:
        """Mark where something was given back, and where those lie that have joined the index; whether there was any
        of that."""
        freed, joined = self._ledger.freed, self._eligible.joined
        seen = (len(freed), len(joined))
        if seen == self._seen:
            return False
        before, self._seen = self._seen, seen
        if seen[1] - before[1] > MOST_JOINED_SINCE:
            self._forget()
        elif self._parts:
            for rank in dict.fromkeys(freed[before[0] :]):
                for each in self._pods_on.get(rank, ()):
                    each.mark(rank)
            for new in joined[before[1] :]:
                self._note_joined(new)
        return True

    def _note_joined(self, joined: Joined) -> None:
        """Mark where something lies that has joined the index."""
        cell = (joined.leaf, joined.priority)
        found: dict[FreeableDevices, None] = {}
        for (below, own), those in self._by_lower.items():
            if VictimGroup(below, own).is_lower(cell):
                found.update(those)
        for branch in self._paths[joined.leaf]:
            for each in self._through.get(branch, ()):
                if each.group.equal in (None, joined.priority):
                    found[each] = None
        for rank in joined.ranks:
            for each in found:
                if each.mark(rank):
                    self._pods_on.setdefault(rank, {})[each] = None

    def note_excess(self, branch: int) -> bool:
        """Mark those that go by how much a branch is above what is due to it: that has changed. Whether some may give
        more."""
        marked = [each for each in self._through.get(branch, ()) if each.mark_excess(branch)]
        return bool(marked)
