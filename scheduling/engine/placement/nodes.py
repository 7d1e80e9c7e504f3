"""The nodes of a pool, by rank, and what they would hold empty (section 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scheduling.engine.model.snapshot import GPU_MILLI, GpuShare, NodeInfo, PoolInfo
from scheduling.engine.placement.domains import Domain, Domains, Level, is_in
from scheduling.engine.placement.free import NodeFree, free_when_empty, pods_in
from scheduling.engine.placement.node_eligibility import (
    NodeClass,
    NodeClasses,
    NodeService,
    Usable,
)
from scheduling.engine.placement.pod_request import PodRequest

Where = Mapping[int, tuple[int, tuple[int, ...]]]
"""By node: the number of its domain, and the cost of a pod on its devices."""
Empty = tuple[tuple[int, ...], int, int]
"""The devices, the CPU and the memory of a node that runs nothing of ours."""


class Nodes:
    """The nodes of one pool, by rank (their order by id), and their classes. They never change in a cycle.

    Only nodes that ``service`` counts have a class: by default those that take new pods. ``labels`` are those that
    workloads select nodes by. Where ``topological``, each class is divided by the domains of the pool: ``classes_of``
    has a node's class and then its part; ``class_of`` the class only (-1 for none).
    """

    def __init__(
        self,
        pool: PoolInfo,
        nodes: Iterable[NodeInfo],
        labels: Iterable[str],
        *,
        topological: bool = False,
        service: NodeService = NodeService.NOW,
    ) -> None:
        self.pool = pool
        self.service = service
        self.rows = sorted(nodes, key=lambda node: node.id)
        self.rank = {node.id: rank for rank, node in enumerate(self.rows)}
        self.capacity_milli = 0
        self._classes = NodeClasses(
            pool.policy.sharing, frozenset(labels), pool.topology if topological else ()
        )
        self._domains = Domains(pool.topology, self.rows, self._classes)
        self._empty: list[Counter[Empty]] = []
        self._most_together: dict[tuple[PodRequest, bool], int] = {}
        self._pod_milli: dict[PodRequest, int] = {}
        self._in_empty: dict[PodRequest, dict[tuple[Empty, tuple[int, ...]], int]] = {}
        for node in self.rows:
            is_up, counts = node.ready and not node.cordoned, service.counts(node)
            numbers = self._classes.add(node, counts=counts)
            if is_up or counts:
                self._count_empty(node, numbers, is_up=is_up)
        self.classes = self._classes.classes
        self.members = self._classes.members
        self.classes_of = self._classes.of_node
        self.class_of = [numbers[0] if numbers else -1 for numbers in self.classes_of]
        self.has_slices = any(each.has_slices for each in self.classes)

    def _count_empty(self, node: NodeInfo, numbers: Iterable[int], *, is_up: bool) -> None:
        """Count what a node has when it runs nothing of ours, by its classes, and as capacity if it is up."""
        free = free_when_empty(node)
        if is_up:
            self.capacity_milli += sum(free.gpu)
        empty = (tuple(free.gpu), free.cpu, free.memory)
        for number in numbers:
            if number == len(self._empty):
                self._empty.append(Counter())
            self._empty[number][empty] += 1

    # --- Eligible nodes and domains --------------------------------------------------------------------------

    def undivided(self) -> list[NodeClass]:
        """The classes, not divided by the topology."""
        return self._classes.undivided()

    def usable(self, request: PodRequest, *, closed_too: bool = False) -> tuple[Usable, ...]:
        """What the request may use of each class; ``closed_too``: also devices that others share."""
        return self._classes.usable(request, closed_too=closed_too)

    def domains(self, request: PodRequest, *, closed_too: bool = False) -> tuple[Level, ...]:
        """The levels in which the pods may be together, in order of preference; ``closed_too`` as in :meth:`usable`."""
        return self._domains.of(request, closed_too=closed_too)

    def where(self, level: Level) -> Where:
        """For each node of a level the number of its domain, and the cost of a pod on its devices."""
        return {
            rank: (number, costs) for number, domain in enumerate(level) for rank, costs in self.ranks(domain)
        }

    def ranks(self, domain: Domain) -> Iterable[tuple[int, tuple[int, ...]]]:
        """The nodes of a domain with the cost of a pod on their devices."""
        for usable in domain.usable:
            for rank in self.members_in(domain, usable):
                yield rank, usable.costs

    def members_in(self, domain: Domain, usable: Usable) -> Sequence[int]:
        """The nodes of a domain that are of one of its classes."""
        return self.members[usable.number] if domain.rank is None else (domain.rank,)

    def is_in(self, node: NodeInfo, domain: Domain) -> bool:
        """Whether a node belongs to a domain, whether or not it takes new pods."""
        if domain.rank is not None:
            return self.rows[domain.rank].id == node.id
        return is_in(node, domain, self.pool.topology)

    # --- What they hold ---------------------------------------------------------------------------------------

    def holds(self, request: PodRequest, rank: int, free: NodeFree) -> bool:
        """Whether a node with so much free could take a pod."""
        number = self.class_of[rank]
        return any(
            each.number == number and pods_in(free, each.costs, request) for each in self.usable(request)
        )

    def pod_milli(self, request: PodRequest) -> int:
        """Milli-GPUs that one pod takes at most on the devices open to it, or, where none is, on those closed to it.

        Where it can use no device, what it asks for, and 0 for memory.
        """
        asked = request.request.milli if isinstance(request.request, GpuShare) else 0
        if request.whole:
            asked = request.whole * GPU_MILLI
        if request.whole > 1 or (asked and not self.has_slices):
            return asked
        found = self._pod_milli.get(request)
        if found is None:
            most = self._largest_cost(self.usable(request))
            most = most or self._largest_cost(self.usable(request, closed_too=True))
            found = self._pod_milli[request] = most or asked
        return found

    def _largest_cost(self, usable: Iterable[Usable]) -> int:
        """The most that one pod takes of a device of ours; 0 where there is none for it."""
        costs = [
            cost
            for each in usable
            for gpu, _, _ in self._empty[each.number]
            for cost, free in zip(each.costs, gpu, strict=True)
            if free and cost
        ]
        return max(costs, default=0)

    def most_pods(self, request: PodRequest, usable: Iterable[Usable]) -> int:
        """How many pods these classes would hold if nothing of ours ran."""
        known = self._in_empty.setdefault(request, {})
        total = 0
        for each in usable:
            for empty, count in self._empty[each.number].items():
                pods = known.get((empty, each.costs))
                if pods is None:
                    gpu, cpu, memory = empty
                    free = NodeFree(list(gpu), cpu, memory)
                    pods = known[empty, each.costs] = pods_in(free, each.costs, request)
                total += count * pods
        return total

    def most_together(self, request: PodRequest, *, closed_too: bool = False) -> int:
        """How many pods the best domain of the widest level would hold empty; ``closed_too`` as in :meth:`usable`."""
        most = self._most_together.get((request, closed_too))
        if most is None:
            levels = self.domains(request, closed_too=closed_too)
            counts = [self._most_in(request, domain) for domain in levels[-1]] if levels else []
            most = self._most_together[request, closed_too] = max(counts, default=0)
        return most

    def takers(self, request: PodRequest, min_pods: int) -> list[NodeInfo]:
        """The nodes that could hold a pod when empty, in domains that could hold the minimum of pods; by rank."""
        levels = self.domains(request, closed_too=True)
        enough = [each for each in (levels[-1] if levels else ()) if self._most_in(request, each) >= min_pods]
        found = {
            rank
            for domain in enough
            for rank, costs in self.ranks(domain)
            if pods_in(free_when_empty(self.rows[rank]), costs, request)
        }
        return [self.rows[rank] for rank in sorted(found)]

    def _most_in(self, request: PodRequest, domain: Domain) -> int:
        if domain.rank is not None:
            return pods_in(free_when_empty(self.rows[domain.rank]), domain.usable[0].costs, request)
        return self.most_pods(request, domain.usable)


class PoolNodes:
    """All nodes of a pool as :class:`Nodes`, by which of them count; made when first asked for."""

    def __init__(
        self, pool: PoolInfo, nodes: Iterable[NodeInfo], labels: Sequence[str], *, topological: bool
    ) -> None:
        self._pool = pool
        self._nodes = list(nodes)
        self._labels = labels
        self._topological = topological
        counted = {service: [*map(service.counts, self._nodes)] for service in NodeService}
        self._same = {
            service: next(each for each in NodeService if counted[each] == counted[service])
            for service in NodeService
        }
        self._made: dict[NodeService, Nodes] = {}

    @property
    def in_service(self) -> Nodes:
        """The nodes that take new pods."""
        return self._counted(NodeService.NOW)

    @property
    def connected(self) -> Nodes:
        """Also those of disconnected clusters; the same object where there are none."""
        return self._counted(NodeService.CONNECTED)

    @property
    def everything(self) -> Nodes:
        """Also those that are cordoned or not ready; the same object where there are none."""
        return self._counted(NodeService.ALL)

    def _counted(self, service: NodeService) -> Nodes:
        service = self._same[service]
        found = self._made.get(service)
        if found is None:
            found = self._made[service] = Nodes(
                self._pool, self._nodes, self._labels, topological=self._topological, service=service
            )
        return found
