"""The nodes of a pool and who may use them: types, labels, taints, partition, sharing, domains (section 5).

Nodes that no request can tell apart by anything but what is free on them form a *kind*; what a request may use is
worked out once per kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.engine.fragmentation import Ints, Typical
from scheduling.engine.model.snapshot import GPU_MILLI, Node, Pool, Share, Sharing
from scheduling.engine.placement.free import NodeFree, free_when_empty, pods_in
from scheduling.engine.placement.node_eligibility import NodeClass, Service, Usable
from scheduling.engine.placement.pod_request import DeviceProfile, PodRequest

NODE_LEVEL = "node"
LEVELS_KEPT = 512
"""Of so many levels, as asks divide them, it is remembered which node is in which domain."""
Where = Mapping[int, tuple[int, tuple[int, ...]]]
"""By node: the number of its domain, and an ask's cost on its devices."""
Empty = tuple[tuple[int, ...], int, int]
"""The devices, the CPU and the memory of a node that runs nothing of ours."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that the pods of a workload may share: a cluster, a topology domain of one, a single node (``rank``). Of a
    gang that names GPUs and slices each has GPUs only, or slices only (``sliced``)."""

    key: tuple[str, ...]
    usable: tuple[Usable, ...]
    rank: int | None = None
    sliced: bool = False


class Fleet:
    """The nodes of one pool, by rank (their order by id), and their kinds. Never changes in a cycle.

    Only nodes that its ``service`` counts in are of a kind: by itself those that take new pods. ``keys`` are the labels
    that somebody selects nodes by; kinds are told apart by no others. Where ``topological``, each kind is divided once
    more, by the domains of the pool: ``kinds_of`` names a node's kind and, if that is divided, the finer one;
    ``kind_of`` the kind only (-1 for none).
    """

    def __init__(
        self,
        pool: Pool,
        nodes: Iterable[Node],
        keys: Iterable[str],
        *,
        topological: bool = False,
        service: Service = Service.NOW,
    ) -> None:
        self.pool = pool
        self.service = service
        self.nodes = sorted(nodes, key=lambda node: node.id)
        self.rank = {node.id: rank for rank, node in enumerate(self.nodes)}
        self.capacity_milli = 0
        self.kinds: list[NodeClass] = []
        self.kinds_of: list[tuple[int, ...]] = []
        self.members: list[list[int]] = []
        self._selected = frozenset(keys)
        self._topological = topological
        self._unshared: Fleet | None = None
        self._numbers: dict[tuple[bool, NodeClass], int] = {}
        self._coarse: list[int] = []
        self._fine: dict[int, int] = {}
        """The finer kinds, each with the kind it is a part of."""
        self._empty: list[Counter[Empty]] = []
        self._usable: dict[tuple[PodRequest, bool, bool], tuple[Usable, ...]] = {}
        self._domains: dict[PodRequest, tuple[tuple[Domain, ...], ...]] = {}
        self._most: dict[PodRequest, int] = {}
        self._pod_milli: dict[PodRequest, int] = {}
        self._in_empty: dict[PodRequest, dict[tuple[Empty, tuple[int, ...]], int]] = {}
        self._costs: dict[PodRequest, dict[int, tuple[int, ...]]] = {}
        self._keys: dict[tuple[int, int], tuple[tuple[str, ...] | None]] = {}
        self._typical: tuple[Pool, Typical] | None = None
        self._ranks: dict[tuple[int, ...], Ints] = {}
        self._levels: dict[tuple[int, tuple[str, ...], tuple[Usable, ...], bool], tuple[Domain, ...]] = {}
        self._numbers_in: dict[int, tuple[tuple[Domain, ...], Ints]] = {}
        self._where: dict[int, tuple[tuple[Domain, ...], Where]] = {}
        selected = self._selected
        levels = selected | {*pool.topology} if topological else selected
        known: dict[NodeClass, tuple[int, ...]] = {}
        for rank, node in enumerate(self.nodes):
            kinds: tuple[int, ...] = ()
            is_up, counts = node.ready and not node.cordoned, service.counts(node)
            if is_up or counts:
                room = free_when_empty(node)
                if is_up:
                    self.capacity_milli += sum(room.gpu)
                if counts:
                    finest = self._kind(node, levels)
                    kinds = known.get(finest, ())
                    if not kinds:
                        kinds = self._numbered(finest, selected, divided=levels != selected)
                        known[finest] = kinds
                    empty = (tuple(room.gpu), room.cpu, room.memory)
                    for number in kinds:
                        self.members[number].append(rank)
                        self._empty[number][empty] += 1
            self.kinds_of.append(kinds)
        self.kind_of = [kinds[0] if kinds else -1 for kinds in self.kinds_of]
        self.has_slices = any(kind.has_slices for kind in self.kinds)

    def _kind(self, node: Node, keys: frozenset[str]) -> NodeClass:
        taints = node.taints
        parts = self.pool.policy.sharing is not Sharing.NONE
        return NodeClass(
            node.cluster,
            tuple([label for label in node.labels if label[0] in keys]) if keys else (),
            tuple(sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))) if taints else (),
            node.partition,
            parts,
            node.sharing and parts,
            tuple(
                [
                    DeviceProfile(device.gpu_type, device.memory_mib, device.slicing, device.share_milli)
                    for device in node.devices
                ]
            ),
            tuple([each.shared_by for each in node.devices]) if _is_shared(node) else (),
        )

    def _numbered(self, finest: NodeClass, selected: frozenset[str], *, divided: bool) -> tuple[int, ...]:
        """The numbers of a kind without the labels that only domains are told apart by and, if it is ``divided``, of
        its part."""
        kind = finest._replace(labels=tuple([label for label in finest.labels if label[0] in selected]))
        number = self._number(kind)
        return (number, self._number(finest, part_of=number)) if divided else (number,)

    def _number(self, kind: NodeClass, part_of: int | None = None) -> int:
        """The number of a kind, a new one if it has none yet."""
        number = self._numbers.setdefault((part_of is not None, kind), len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
            self.members.append([])
            self._empty.append(Counter())
            if part_of is None:
                self._coarse.append(number)
            else:
                self._fine[number] = part_of
        return number

    @property
    def unshared(self) -> Fleet:
        """The fleet as it is when nobody shares devices; itself where nobody does."""
        if self._unshared is None:
            self._unshared = self
            if any(map(_is_shared, self.nodes)):
                nodes, keys = [_not_shared(node) for node in self.nodes], self._selected
                self._unshared = Fleet(
                    self.pool, nodes, keys, topological=self._topological, service=self.service
                )
        return self._unshared

    def undivided(self) -> list[NodeClass]:
        """The kinds, whatever the domains."""
        return [self.kinds[number] for number in self._coarse]

    def usable(self, ask: PodRequest, *, fine: bool = False, closed_too: bool = False) -> tuple[Usable, ...]:
        """The kinds an ask may use, with its cost on their devices; ``fine``: divided by the pool's domains.
        ``closed_too``: also on devices that are closed to it as long as others share them."""
        found = self._usable.get((ask, fine, closed_too))
        if found is None:
            if fine and self._fine:
                whole = {each.kind: each for each in self.usable(ask)}
                parts = [(number, whole[of]) for number, of in self._fine.items() if of in whole]
                found = tuple([Usable(number, each.costs, each.uniform) for number, each in parts])
            else:
                kinds = [(number, self.kinds[number]) for number in self._coarse]
                admitting = [(number, kind) for number, kind in kinds if kind.admits(ask)]
                costs = [
                    (
                        number,
                        kind.of_one_sort(
                            ask, kind.costs(ask) if closed_too else kind.open_to(ask, kind.costs(ask))
                        ),
                    )
                    for number, kind in admitting
                ]
                found = tuple(
                    Usable(number, each, uniform=len(set(each)) == 1 and not self.kinds[number].has_slices)
                    for number, each in costs
                    if any(each) or ask.bare
                )
            self._usable[ask, fine, closed_too] = found
        return found

    def domains(self, ask: PodRequest) -> tuple[tuple[Domain, ...], ...]:
        """Where the pods may lie together: alternatives in order of preference, each the domains of one level.

        Without a topology that is the clusters for several pods, and the pool as a whole for one.
        """
        found = self._domains.get(ask)
        if found is None:
            found = self._domains[ask] = tuple(self._level(ask, depth) for depth in self._depths(ask))
        return found

    def _level(self, ask: PodRequest, depth: int) -> tuple[Domain, ...]:
        """The domains of one level: one object for all asks that may use the same."""
        key = (depth, self._inside(ask, depth), self.usable(ask), ask.one_sort)
        found = self._levels.get(key)
        if found is None:
            found = self._levels[key] = self._divided(ask, depth)
        return found

    def _inside(self, ask: PodRequest, depth: int) -> tuple[str, ...]:
        """The labels that each node of a level must have so that it lies in a domain of the level that is required: the
        path of an inner level has those of the outer ones, a node may lack them."""
        levels = self.pool.topology
        if depth <= len(levels) or ask.topology.required not in levels:
            return ()
        return levels[: levels.index(ask.topology.required) + 1]

    def _depths(self, ask: PodRequest) -> list[int]:
        """Which levels to try: -1 is the pool, 0 the clusters, n the n-th level of the topology."""
        levels = (*self.pool.topology, NODE_LEVEL)
        required, preferred = ask.topology.required, ask.topology.preferred
        outermost = 0 if ask.together else -1
        if required is not None:
            if required not in levels:
                return []
            outermost = levels.index(required) + 1
        if preferred in levels:
            return [*range(levels.index(preferred) + 1, max(outermost, 0), -1), outermost]
        return [outermost]

    def _divided(self, ask: PodRequest, depth: int) -> tuple[Domain, ...]:
        """The domains of one level, by key; nodes without the level's labels are in none, but are nodes all the
        same, unless a level is required that they lie in no domain of."""
        if depth < 0:
            return (Domain((), self.usable(ask)),)
        nodes = depth > len(self.pool.topology)
        usables = self.usable(ask, fine=not nodes and depth > 0)
        keys = () if nodes else self.pool.topology[:depth]
        groups: dict[tuple[tuple[str, ...], bool], list[Usable]] = {}
        for usable in usables:
            key = self._key(usable.kind, keys)
            if key is not None:
                sliced = ask.one_sort and self.kinds[usable.kind].is_sliced(usable.costs)
                groups.setdefault((key, sliced), []).append(usable)
        if not nodes:
            return tuple(
                Domain(key, tuple(group), sliced=sliced) for (key, sliced), group in sorted(groups.items())
            )
        inside = {*self._inside(ask, depth)}
        single = [
            Domain((*key, self.nodes[rank].id), (usable,), rank, sliced)
            for (key, sliced), group in groups.items()
            for usable in group
            for rank in self.members[usable.kind]
            if inside <= {label for label, _ in self.nodes[rank].labels}
        ]
        return tuple(sorted(single, key=lambda domain: domain.key))

    def _key(self, number: int, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        """The key of the domain, by these labels, that nodes of a kind are in; ``None`` if they lack one."""
        found = self._keys.get((number, len(keys)))
        if found is None:
            kind = self.kinds[number]
            labels = dict(kind.labels)
            there = all(key in labels for key in keys)
            found = ((kind.cluster, *[labels[key] for key in keys]) if there else None,)
            self._keys[number, len(keys)] = found
        return found[0]

    @property
    def typical(self) -> Typical:
        """The pool's typical requests, as its nodes could serve them."""
        if self._typical is None or self._typical[0] is not self.pool:
            self._typical = (self.pool, Typical(self.pool.recent, self.kinds))
        return self._typical[1]

    def ranks_of(self, usable: Iterable[Usable]) -> Ints:
        """The ranks of all nodes of these kinds, in order."""
        kinds = tuple([each.kind for each in usable])
        found = self._ranks.get(kinds)
        if found is None:
            found = np.sort(np.array([rank for kind in kinds for rank in self.members[kind]], np.int64))
            self._ranks[kinds] = found
        return found

    def numbers_in(self, level: tuple[Domain, ...]) -> Ints:
        """For each node the number, in a level, of the domain it is in; -1 for none."""
        known = self._numbers_in.get(id(level))
        if known is not None and known[0] is level:
            return known[1]
        found = np.full(len(self.nodes), -1, np.int64)
        for number, domain in enumerate(level):
            found[self.ranks_of(domain.usable) if domain.rank is None else domain.rank] = number
        if len(self._numbers_in) >= LEVELS_KEPT:
            self._numbers_in.clear()
        self._numbers_in[id(level)] = (level, found)
        return found

    def where(self, level: tuple[Domain, ...]) -> Where:
        """For each node of a level the number of its domain, and the cost of an ask on its devices."""
        known = self._where.get(id(level))
        if known is not None and known[0] is level:
            return known[1]
        found = {
            rank: (number, costs) for number, domain in enumerate(level) for rank, costs in self.ranks(domain)
        }
        if len(self._where) >= LEVELS_KEPT:
            self._where.clear()
        self._where[id(level)] = (level, found)
        return found

    def costs_on(self, ask: PodRequest, rank: int) -> tuple[int, ...] | None:
        """The ask's cost on a node's devices, ``None`` where it may not run."""
        costs = self._costs.get(ask)
        if costs is None:
            costs = self._costs[ask] = {usable.kind: usable.costs for usable in self.usable(ask)}
        return costs.get(self.kind_of[rank])

    def ranks(self, domain: Domain) -> Iterable[tuple[int, tuple[int, ...]]]:
        """The nodes of a domain with the ask's cost on their devices."""
        for usable in domain.usable:
            for rank in self.members_in(domain, usable):
                yield rank, usable.costs

    def members_in(self, domain: Domain, usable: Usable) -> Sequence[int]:
        """The nodes of a domain that are of one of its kinds."""
        return self.members[usable.kind] if domain.rank is None else (domain.rank,)

    def is_in(self, node: Node, domain: Domain) -> bool:
        """Whether a node belongs to a domain, whether or not it takes new pods."""
        if domain.rank is not None:
            return self.nodes[domain.rank].id == node.id
        labels = dict(node.labels)
        cluster, *values = domain.key or (node.cluster,)
        return node.cluster == cluster and values == [
            labels.get(key) for key in self.pool.topology[: len(values)]
        ]

    def pod_milli(self, ask: PodRequest) -> int:
        """Milli-GPUs of one pod, where it takes most, of the devices that others leave, or, where they leave none,
        share now; where none of the pool can take it, what it asks for, and 0 for memory."""
        asked = ask.request.milli if isinstance(ask.request, Share) else 0
        if ask.whole:
            asked = ask.whole * GPU_MILLI
        if ask.whole > 1 or (asked and not self.has_slices):
            return asked
        found = self._pod_milli.get(ask)
        if found is None:
            most = self._most_of_a_pod(self.usable(ask)) or self._most_of_a_pod(
                self.usable(ask, closed_too=True)
            )
            found = self._pod_milli[ask] = most or asked
        return found

    def _most_of_a_pod(self, usable: Iterable[Usable]) -> int:
        """The most that one pod takes of a device of ours; 0 where there is none for it."""
        left = [
            cost
            for each in usable
            for gpu, _, _ in self._empty[each.kind]
            for cost, free in zip(each.costs, gpu, strict=True)
            if free and cost
        ]
        return max(left, default=0)

    def holds(self, ask: PodRequest, rank: int, room: NodeFree) -> bool:
        """Whether a node with so much room could take a pod of the ask."""
        costs = self.costs_on(ask, rank)
        return costs is not None and pods_in(room, costs, ask) > 0

    def most_pods(self, ask: PodRequest, usable: Iterable[Usable]) -> int:
        """How many pods these kinds would hold if nothing of ours ran."""
        known = self._in_empty.setdefault(ask, {})
        total = 0
        for each in usable:
            for empty, count in self._empty[each.kind].items():
                pods = known.get((empty, each.costs))
                if pods is None:
                    gpu, cpu, memory = empty
                    room = NodeFree(list(gpu), cpu, memory)
                    pods = known[empty, each.costs] = pods_in(room, each.costs, ask)
                total += count * pods
        return total

    def most_together(self, ask: PodRequest) -> int:
        """How many pods could ever lie where the ask allows them to, in the best domain of its widest level."""
        most = self._most.get(ask)
        if most is None:
            levels = self.domains(ask)
            most = self._most[ask] = (
                max((self._most_in(ask, each) for each in levels[-1]), default=0) if levels else 0
            )
        return most

    def takers(self, ask: PodRequest, min_pods: int) -> list[Node]:
        """The nodes that could hold a pod when empty, in domains that could hold the minimum of pods; by rank."""
        levels = self.domains(ask)
        enough = [each for each in (levels[-1] if levels else ()) if self._most_in(ask, each) >= min_pods]
        found = {
            rank
            for domain in enough
            for rank, costs in self.ranks(domain)
            if pods_in(free_when_empty(self.nodes[rank]), costs, ask)
        }
        return [self.nodes[rank] for rank in sorted(found)]

    def _most_in(self, ask: PodRequest, domain: Domain) -> int:
        if domain.rank is not None:
            return pods_in(free_when_empty(self.nodes[domain.rank]), domain.usable[0].costs, ask)
        return self.most_pods(ask, domain.usable)


def _is_shared(node: Node) -> bool:
    """Whether parts of a device are for some only."""
    return any(device.shared_by is not None for device in node.devices)


def _not_shared(node: Node) -> Node:
    """The node with devices that nobody shares."""
    devices = tuple([replace(device, shared_by=None) for device in node.devices])
    return replace(node, devices=devices) if _is_shared(node) else node
