"""What is being done to nodes: what empties them, and which are not ready."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from agentlink.agent.backends.native.inventory import NodeInventory
from agentlink.agent.backends.native.nodes import read_node
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.resources import NODES


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Asks the inventory, and the API server where that may be behind."""

    kube: Kube
    inventory: NodeInventory

    def unready(self, nodes: Iterable[str]) -> set[str]:
        """Return those of the nodes that are there and not ready."""
        known = ((name, self.inventory.nodes.items.get(name)) for name in nodes)
        return {name for name, node in known if node is not None and not node.ready}

    def drains(self, nodes: Iterable[str], *, reserved: bool) -> dict[str, datetime]:
        """Return from when work of a class leaves those of the nodes that an operator asked to be drained."""
        found: dict[str, datetime] = {}
        for name in nodes:
            node = self.inventory.nodes.items.get(name)
            drain = None if node is None else node.drain
            at = None if drain is None else drain.reserved_at if reserved else drain.elastic_at
            if at is not None:
                found[name] = at
        return found

    async def emptied(self, nodes: Iterable[str], *, afresh: Collection[str] = ()) -> dict[str, str]:
        """Return what empties those of the nodes that are being emptied, as far as they tell; by a fresh look at those
        of `afresh` that are not known to be: pods and nodes are heard of separately.
        """
        found: dict[str, str] = {}
        for name in nodes:
            node = self.inventory.nodes.items.get(name)
            if node is not None and node.emptied_by is None and name in afresh:
                there = (await self.kube.list(NODES, fields=f"metadata.name={name}")).items
                node = read_node(there[0], ()) if there else None
            if node is not None and node.emptied_by is not None:
                found[name] = node.emptied_by
        return found
