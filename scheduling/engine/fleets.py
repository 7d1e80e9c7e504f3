"""The nodes of a pool as they are, and as they would be with those back that are out of service (section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduling.engine.fleet import Fleet
from scheduling.engine.model.snapshot import Node, Pool
from scheduling.engine.placement.node_eligibility import Service


class Fleets:
    """The fleet of a pool by which of its nodes are counted in; what nobody asks for is never made."""

    def __init__(self, pool: Pool, nodes: Iterable[Node], keys: Sequence[str], *, topological: bool) -> None:
        self._pool = pool
        self._nodes = list(nodes)
        self._keys = keys
        self._topological = topological
        disconnected = any(not node.cluster_online for node in self._nodes)
        down = any(not node.ready or node.cordoned for node in self._nodes)
        self._as: dict[Service, Service] = {
            Service.NOW: Service.NOW,
            Service.CONNECTED: Service.CONNECTED if disconnected else Service.NOW,
            Service.ALL: Service.ALL if down else Service.CONNECTED if disconnected else Service.NOW,
        }
        self._made: dict[Service, Fleet] = {}

    @property
    def in_service(self) -> Fleet:
        """The nodes that take new pods."""
        return self._fleet(Service.NOW)

    @property
    def connected(self) -> Fleet:
        """Also those of disconnected clusters; the same object where there are none."""
        return self._fleet(Service.CONNECTED)

    @property
    def everything(self) -> Fleet:
        """Also those that are cordoned or not ready; the same object where there are none."""
        return self._fleet(Service.ALL)

    def _fleet(self, service: Service) -> Fleet:
        service = self._as[service]
        found = self._made.get(service)
        if found is None:
            found = Fleet(self._pool, self._nodes, self._keys, topological=self._topological, service=service)
            self._made[service] = found
        return found
