"""Topology domains: where the pods of a workload may be together, in order of preference (section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.engine.model.snapshot import NodeInfo
from scheduling.engine.placement.node_eligibility import NodeClass, NodeClasses, Usable
from scheduling.engine.placement.pod_request import PodRequest

NODE_LEVEL = "node"
"""The innermost level of each pool: its domains are single nodes."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that the pods of a workload may share: a cluster, a topology domain of one, a single node (``rank``).

    Of a gang that names GPUs and slices each domain has GPUs only, or slices only (``sliced``).
    """

    key: tuple[str, ...]
    usable: tuple[Usable, ...]
    rank: int | None = None
    sliced: bool = False


Level = tuple[Domain, ...]
"""The domains of one level, by key."""


def levels_to_try(topology: Sequence[str], request: PodRequest) -> list[int]:
    """The levels in which the pods may be, in order of preference.

    -1 is the pool, 0 the clusters, n the n-th level of the topology, and the one after the last the single nodes.
    Without a topology that is the clusters for several pods, and the pool for one.
    """
    levels = (*topology, NODE_LEVEL)
    required, preferred = request.topology.required, request.topology.preferred
    outermost = 0 if request.together else -1
    if required is not None:
        if required not in levels:
            return []
        outermost = levels.index(required) + 1
    if preferred in levels:
        return [*range(levels.index(preferred) + 1, max(outermost, 0), -1), outermost]
    return [outermost]


def required_labels(topology: Sequence[str], request: PodRequest, level: int) -> tuple[str, ...]:
    """The labels that a node needs to be a domain of its own: those of the required level and the levels around it.

    In outer levels a node without a label is in no domain anyway.
    """
    required = request.topology.required
    if level <= len(topology) or required not in topology:
        return ()
    return tuple(topology[: topology.index(required) + 1])


def domain_key(node_class: NodeClass, labels: Sequence[str]) -> tuple[str, ...] | None:
    """The key of the domain, by these labels, of the nodes of a class; ``None`` if they lack one."""
    found = dict(node_class.labels)
    if not all(label in found for label in labels):
        return None
    return (node_class.cluster, *[found[label] for label in labels])


def is_in(node: NodeInfo, domain: Domain, topology: Sequence[str]) -> bool:
    """Whether a node belongs to a domain of several nodes, whether or not it takes new pods."""
    labels = dict(node.labels)
    cluster, *values = domain.key or (node.cluster,)
    return node.cluster == cluster and values == [labels.get(key) for key in topology[: len(values)]]


class Domains:
    """The domains of a pool's nodes, by request."""

    def __init__(self, topology: Sequence[str], nodes: Sequence[NodeInfo], classes: NodeClasses) -> None:
        self._topology = tuple(topology)
        self._nodes = nodes
        self._classes = classes
        self._of: dict[tuple[PodRequest, bool], tuple[Level, ...]] = {}
        self._levels: dict[tuple[int, tuple[str, ...], tuple[Usable, ...], bool], Level] = {}
        self._keys: dict[tuple[int, int], tuple[str, ...] | None] = {}

    def of(self, request: PodRequest, *, closed_too: bool = False) -> tuple[Level, ...]:
        """The levels in which the pods may be, in order of preference, by what is :meth:`~NodeClasses.usable`."""
        found = self._of.get((request, closed_too))
        if found is None:
            levels = levels_to_try(self._topology, request)
            found = tuple([self._level(request, level, closed_too=closed_too) for level in levels])
            self._of[request, closed_too] = found
        return found

    def _level(self, request: PodRequest, level: int, *, closed_too: bool) -> Level:
        """The domains of one level: one object for all requests that may use the same."""
        required = required_labels(self._topology, request, level)
        key = (level, required, self._classes.usable(request, closed_too=closed_too), request.one_sort)
        found = self._levels.get(key)
        if found is None:
            found = self._levels[key] = self._divided(request, level, required, closed_too=closed_too)
        return found

    def _divided(
        self, request: PodRequest, level: int, required: Sequence[str], *, closed_too: bool
    ) -> Level:
        """The domains of one level; nodes without its labels are in none. Of the node level each node with the
        ``required`` labels is one."""
        if level < 0:
            return (Domain((), self._classes.usable(request, closed_too=closed_too)),)
        by_node = level > len(self._topology)
        labels = () if by_node else self._topology[:level]
        groups: dict[tuple[tuple[str, ...], bool], list[Usable]] = {}
        for usable in self._classes.usable(request, divided=bool(labels), closed_too=closed_too):
            key = self._key(usable.number, labels)
            if key is not None:
                sliced = request.one_sort and self._classes.classes[usable.number].is_sliced(usable.costs)
                groups.setdefault((key, sliced), []).append(usable)
        if by_node:
            single = [
                each
                for (key, sliced), group in groups.items()
                for each in self._single(key, group, required, sliced=sliced)
            ]
            return tuple(sorted(single, key=lambda domain: domain.key))
        return tuple(
            [Domain(key, tuple(group), sliced=sliced) for (key, sliced), group in sorted(groups.items())]
        )

    def _single(
        self, key: tuple[str, ...], group: Iterable[Usable], required: Sequence[str], *, sliced: bool
    ) -> Iterable[Domain]:
        """The nodes of these classes that have the required labels, each a domain of its own."""
        for usable in group:
            for rank in self._classes.members[usable.number]:
                node = self._nodes[rank]
                if {*required} <= {label for label, _ in node.labels}:
                    yield Domain((*key, node.id), (usable,), rank, sliced)

    def _key(self, number: int, labels: Sequence[str]) -> tuple[str, ...] | None:
        if (number, len(labels)) not in self._keys:
            self._keys[number, len(labels)] = domain_key(self._classes.classes[number], labels)
        return self._keys[number, len(labels)]
