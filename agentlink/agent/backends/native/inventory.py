"""What a cluster has: nodes and their GPUs, kept up to date by watches, and what a planned pod asks for to get them."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentlink.agent.backends.native import claims, devices
from agentlink.agent.backends.native.claimed import Claimed
from agentlink.agent.backends.native.claims import ClaimFacts
from agentlink.agent.backends.native.devices import CannotHold, ClusterDevice, ContainerRequest, DeviceClaim
from agentlink.agent.backends.native.facts import PodFacts
from agentlink.agent.backends.native.names import DomainNames
from agentlink.agent.backends.native.nodes import NodeFacts, read_node, report
from agentlink.agent.backends.native.slices import SliceDevice, SliceFacts, devices_of, read_slice
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.reflector import Reflector
from agentlink.agent.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, JsonObject
from agentlink.protocol import AssignedPod, NodeReport

logger = logging.getLogger(__name__)

GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*", "amd.com/gpu")
GPU_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com")
PARTITION_LABEL = "chamber.internal/partition"


@dataclass(frozen=True, slots=True)
class Settings:
    """What counts as inventory.

    `resources` are patterns of the device plugin's names, `drivers` those whose slices are GPUs; `partition_label` is
    the label whose value is a node's partition; `device_classes` are classes by driver, or by `driver/kind`.
    """

    node_selector: str = ""
    resources: tuple[str, ...] = GPU_RESOURCES
    drivers: tuple[str, ...] = GPU_DRIVERS
    partition_label: str = PARTITION_LABEL
    device_classes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What is on a node: living pods that are not Chamber's, and the indexes of the plan that Chamber's own hold."""

    foreign: Sequence[PodFacts] = ()
    held: Collection[int] = ()


class NodeInventory:
    """The nodes with GPUs. `use_of` says what is on a node, `owns` whether a namespace's Job of a uid is one
    of Chamber's own.

    Each of `reflectors` is to be run, and its `synced` awaited, before anything is asked. `on_change` is called when a
    report may have changed, `on_leaving` with a node that is not there any more, or whose drain is another.

    Which pods may share a device is for the plan to say: a claim lies in one namespace.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        use_of: Callable[[str], NodeUse],
        owns: Callable[[str, str], bool],
        on_change: Callable[[], None],
        on_leaving: Callable[[str], None] | None = None,
        on_problem: Callable[[NodeFacts, str], None] | None = None,
        settings: Settings | None = None,
        names: DomainNames | None = None,
    ) -> None:
        self.settings, self.names = settings or Settings(), names or DomainNames()
        self._use_of, self._owns, self._on_change, self._on_leaving = use_of, owns, on_change, on_leaving
        self._on_problem = on_problem
        self._kube = kube
        self._version = 0
        self._reports: dict[str, NodeReport] = {}
        self._devices: dict[str, tuple[ClusterDevice, ...]] = {}
        self._foreign: dict[str, frozenset[int]] = {}
        self._dirty: set[str] = set()
        self._slices_changed = False
        self._published: dict[str, list[SliceDevice]] = {}
        self._node_of: dict[str, str] = {}
        """The node of each published device, by its key."""
        self._claimed = Claimed()
        self.nodes = Reflector(
            kube, NODES, self._read_node, labels=self.settings.node_selector, on_change=self._on_node
        )
        self.slices = Reflector(
            kube, RESOURCE_SLICES, self._read_slice, optional=True, on_change=self._on_slice
        )
        self.claims = Reflector(
            kube, RESOURCE_CLAIMS, self._read_claim, optional=True, on_change=self._on_claim
        )

    @property
    def reflectors(self) -> tuple[Reflector[NodeFacts], Reflector[SliceFacts], Reflector[ClaimFacts]]:
        """Return what keeps it up to date."""
        return self.nodes, self.slices, self.claims

    def touch(self, node: str) -> None:
        """Note that something about a node is not what it was: itself, or what is on it."""
        self._dirty.add(node)
        self._on_change()

    def reports(self) -> tuple[int, Sequence[NodeReport]]:
        """Return a version that grows where any report is not what it was, and all nodes with GPUs."""
        self._refresh()
        return self._version, list(self._reports.values())

    def device(self, node: str, index: int) -> ClusterDevice | None:
        """Return what an index of the plan is."""
        self._refresh()
        return next((each for each in self._devices.get(node, ()) if each.index == index), None)

    def quota_key(self, device: SliceDevice) -> str:
        """Return under which name a ResourceQuota counts claims on a device."""
        return (
            f"{claims.device_class(device, self.settings.device_classes)}.deviceclass.resource.k8s.io/devices"
        )

    def quota_keys(self) -> set[str]:
        """Return under which names quotas count all GPUs that there are."""
        self._refresh()
        every = [device for found in self._devices.values() for device in found]
        plain = {f"requests.{device.resource}" for device in every if device.resource}
        return plain | {self.quota_key(each.published) for each in every if each.published is not None}

    def ask(self, pod: AssignedPod, namespace: str) -> ContainerRequest:
        """Return what a pod in that namespace asks for to get what is planned for it; raise `CannotHold`."""
        self._refresh()
        if pod.node not in self.nodes.items:
            raise CannotHold(f"Node {pod.node} is not there any more.")
        found = devices.ask(pod, {each.index: each for each in self._devices.get(pod.node, ())})
        for claim in found.claims:
            for index, device in claim.devices:
                shared = (each.namespace for each in self._claimed.having(device.key) if each.shared)
                other = next((each for each in shared if each != namespace), None) if claim.shared else None
                if other is not None:
                    raise CannotHold(
                        f"GPU {index} of node {pod.node} is shared by pods of namespace {other}; "
                        f"Kubernetes cannot share it with pods of {namespace}."
                    )
        return found

    async def provide(
        self, claim: DeviceClaim, base: str, namespace: str, labels: Mapping[str, str], owner: JsonObject
    ) -> None:
        """Have a claim exist for a Job, its owner; raise `CannotHold` where that cannot be."""
        whole = claims.body(
            claim,
            claims.name_of(claim, base),
            labels,
            owner,
            names=self.names,
            classes=self.settings.device_classes,
        )
        await claims.provide(self._kube, whole, namespace)

    # What the watches tell

    def _read_node(self, body: JsonObject) -> NodeFacts:
        return read_node(body, self.settings.resources, self.names)

    def _read_slice(self, body: JsonObject) -> SliceFacts | None:
        return read_slice(body, self.settings.drivers)

    def _read_claim(self, body: JsonObject) -> ClaimFacts | None:
        claim = claims.read_claim(body, self.names)
        return claim if claim.devices or claim.pins else None

    def _on_node(self, key: str, old: NodeFacts | None, new: NodeFacts | None) -> None:
        self.touch(key)
        drained = new is None or (old is not None and old.drain != new.drain)
        if drained and self._on_leaving is not None:
            self._on_leaving(key)
        before, now = (each.drain.problem if each and each.drain else "" for each in (old, new))
        if new is not None and now and now != before and self._on_problem is not None:
            self._on_problem(new, now)

    def _on_slice(self, _key: str, _old: SliceFacts | None, _new: SliceFacts | None) -> None:
        self._slices_changed = True
        self._on_change()

    def _on_claim(self, key: str, old: ClaimFacts | None, new: ClaimFacts | None) -> None:
        concerned = self._claimed.take(key, new)
        self._dirty.update(self._node_of[device] for device in concerned if device in self._node_of)
        if (
            old is not None and old.pins and new is None
        ):  # Kubernetes deletes it, after the last Job that owns it
            about = {"kind": RESOURCE_CLAIMS.kind, "namespace": old.namespace, "object": old.name}
            logger.info("%s %s was deleted.", RESOURCE_CLAIMS.kind, key, extra=about)
        self._on_change()

    # What follows from it

    def _refresh(self) -> None:
        if self._slices_changed:
            self._slices_changed = False
            self._read_pools()
        dirty, self._dirty = self._dirty, set()
        for name in dirty:
            new = self._report(name)
            if new != self._reports.get(name):
                self._version += 1
            if new is None:
                self._reports.pop(name, None)
            else:
                self._reports[name] = new

    def _read_pools(self) -> None:
        """Find out anew which devices nodes have; where a driver is just writing them they stay as they were."""
        found = devices_of(self.slices.items.values())
        for name in self._published.keys() | found.keys():
            before, after = self._published.get(name, []), found.get(name, [])
            if after is None or after == before:
                continue
            self._published[name] = after
            self._node_of.update({device.key: name for device in after})
            self._dirty.add(name)
        gone = [name for name, published in self._published.items() if not published]
        for name in gone:
            del self._published[name]

    def _report(self, name: str) -> NodeReport | None:
        """Return what is told of a node; None where it is gone or has no GPUs."""
        node = self.nodes.items.get(name)
        published = self._published.get(name)
        if node is None:
            self._devices.pop(name, None)
            self._foreign.pop(name, None)
            return None
        use = self._use_of(name)
        if published:
            found = devices.of_slices(published, self._numbered(name, published))
            foreign = self._foreign_of_slices(found, use)
        else:
            found = devices.of_plugin(node.labels, node.devices, self.settings.resources)
            used: Counter[str] = Counter()
            for pod in use.foreign:
                used.update(dict(pod.requests))
            foreign = devices.foreign_of_plugin(
                found,
                available=node.available,
                used=used,
                held=use.held,
                before=self._foreign.get(name, frozenset()),
            )
        self._devices[name], self._foreign[name] = found, foreign
        if not found:
            return None
        return report(
            node,
            found,
            foreign,
            use.foreign,
            partition_label=self.settings.partition_label,
            sharing=bool(published),
            problem=" ".join(self._why_taken(found)),
        )

    def _why_taken(self, found: Sequence[ClusterDevice]) -> Iterator[str]:
        """Yield why devices are not to be had though no pod has them, and what to do."""
        for device in found:
            if device.published is not None and device.published.refuses:
                yield f"GPU {device.index} is tainted by its driver: no claim gets it."
            for claim in {each for key in device.keys for each in self._claimed.having(key)}:
                if not claim.used and not self._is_own(claim):
                    yield (
                        f"GPU {device.index} is allocated to a claim that no pod uses: "
                        f"kubectl delete resourceclaim {claim.name} -n {claim.namespace} frees it."
                    )

    def _numbered(self, name: str, published: Sequence[SliceDevice]) -> dict[str, int]:
        """Return the indexes that devices have: those they had, else those that Chamber's claims remember."""
        known = {each.published.key: each.index for each in self._devices.get(name, ()) if each.published}
        for device in published:
            for index, claim in self._claimed.pinning(device.key):
                if self._is_own(claim) and index not in known.values():
                    known.setdefault(device.key, index)
        return known

    def _foreign_of_slices(self, found: Sequence[ClusterDevice], use: NodeUse) -> frozenset[int]:
        held, taken = set(use.held), set()
        for device in found:
            for key in device.keys:
                if not all(map(self._is_own, self._claimed.having(key))):
                    taken.add(key)
                if any(self._is_own(pin) for _, pin in self._claimed.pinning(key)):
                    held.add(device.index)
        return devices.foreign_of_slices(found, taken=taken, held=held)

    def _is_own(self, claim: ClaimFacts) -> bool:
        return any(self._owns(claim.namespace, owner) for owner in claim.owners)
