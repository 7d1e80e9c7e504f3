"""The sentences that a cycle writes into events. They name teams, pools and nodes, never a foreign workload."""

from collections.abc import Iterable, Mapping, Sequence

from scheduling import engine
from scheduling.engine.model.quantities import gpus, in_gpus

NODES_NAMED = 4


class PlanNames:
    """What the ids of teams, pools and nodes are called; and of which type each slice is, by node and index."""

    def __init__(
        self,
        teams: Mapping[str, str],
        pools: Mapping[str, str],
        nodes: Mapping[str, str],
        slices: Mapping[tuple[str, int], str] | None = None,
    ) -> None:
        self.teams, self.pools, self.nodes, self.slices = teams, pools, nodes, slices or {}

    @classmethod
    def of(cls, snapshot: engine.Snapshot) -> "PlanNames":
        """Return the names in a snapshot."""
        return cls(
            {team.id: team.name for team in snapshot.teams},
            {pool.id: pool.name for pool in snapshot.pools},
            {node.id: node.name for node in snapshot.nodes},
            {
                (node.id, device.index): device.gpu_type
                for node in snapshot.nodes
                for device in node.devices
                if device.slicing is not engine.Slicing.WHOLE
            },
        )

    def devices(self, placements: Sequence[engine.PodPlacement]) -> str:
        """Return what these pods have: `4 GPUs`, `4 slices of mig-1g.10gb (0.572 GPUs)`."""
        told = gpus(sum(pod.milli for pod in placements))
        cut = [self.slices.get((pod.node, share.index)) for pod in placements for share in pod.devices]
        if not cut or None in cut:
            return told
        names = " and ".join(sorted({name or "no type" for name in cut}))
        return f"{len(cut)} {'slice' if len(cut) == 1 else 'slices'} of {names} ({told})"

    def level(self, level: str | None) -> str:
        """Return what a level of a reason is called: a team, a pool, or a topology level as it stands."""
        if level is None:
            return ""
        return self.teams.get(level) or self.pools.get(level) or level

    def places(self, placements: Iterable[engine.PodPlacement]) -> str:
        """Return the nodes, the first few by name: `n1, n2 and 3 more`."""
        found = sorted({self.nodes.get(pod.node, pod.node) for pod in placements})
        if len(found) <= NODES_NAMED:
            return " and ".join(filter(None, [", ".join(found[:-1]), found[-1]])) if found else "no node"
        return f"{', '.join(found[: NODES_NAMED - 1])} and {len(found) - NODES_NAMED + 1} more nodes"

    def charged(self, allocation: Sequence[engine.Allocation]) -> str:
        """Return what a workload counts against, after its GPUs: `, of the guarantee of NLP`.

        Where it is several, with the part of each: `: 4 of the guarantee of NLP, 2 beyond every guarantee (burst)`.
        """
        if len(allocation) == 1:
            return f", {self._whose(allocation[0])}"
        parts = [f"{in_gpus(part.milli)} {self._whose(part)}" for part in allocation]
        return f": {', '.join(parts)}" if parts else ""

    def _whose(self, part: engine.Allocation) -> str:
        if part.team is None:
            return "beyond every guarantee (burst)"
        return f"of the guarantee of {self.teams.get(part.team, 'a former team')}"


def started(start: engine.Start, names: PlanNames) -> str:
    """Return what a start tells its workload."""
    told = f"{given(start, names)}."
    if start.waits_for_victims:
        told += " Its pods are created when those that stop there are gone."
    return told


def given(start: engine.Start, names: PlanNames) -> str:
    """Return what a start gives: `4 GPUs on n1, of the guarantee of NLP`."""
    given_to = names.devices(start.placements)
    return f"{given_to} on {names.places(start.placements)}{names.charged(start.allocation)}"


def grown(grow: engine.Grow, names: PlanNames) -> str:
    """Return what a growth tells its workload."""
    pods = len(grow.placements)
    noun = "pod" if pods == 1 else "pods"
    given_to = names.devices(grow.placements)
    more = f", {given_to}," if given_to.endswith(")") else f" ({given_to})"
    return f"Grew by {pods} {noun}{more} on {names.places(grow.placements)}."
