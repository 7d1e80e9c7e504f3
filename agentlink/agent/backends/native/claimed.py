"""Which claims have which devices of a cluster, and which indexes claims say that devices have."""

from collections.abc import Iterator

from agentlink.agent.backends.native.claims import ClaimFacts


class Claimed:
    """The claims of a cluster by the devices that they were given, and by those that they pin to an index.

    A claim is known by its key, `namespace/name`, and by nothing else: a change that alters nothing of what is kept is
    not told. Several may have a device, or pin it: what one lets go of, the others keep.
    """

    def __init__(self) -> None:
        self._claims: dict[str, ClaimFacts] = {}
        self._given: dict[str, dict[str, ClaimFacts]] = {}
        self._pinned: dict[str, dict[str, ClaimFacts]] = {}

    def take(self, key: str, new: ClaimFacts | None) -> set[str]:
        """Take in what a claim is now, None where it is gone; return the devices that it concerns, by key."""
        old = self._claims.pop(key, None)
        if old is not None:
            for device in old.devices:
                _remove(self._given, device, key)
            for device, _ in old.pins:
                _remove(self._pinned, device, key)
        if new is not None:
            self._claims[key] = new
            for device in new.devices:
                self._given.setdefault(device, {})[key] = new
            for device, _ in new.pins:
                self._pinned.setdefault(device, {})[key] = new
        return {device for claim in (old, new) if claim is not None for device in _devices(claim)}

    def having(self, device: str) -> Iterator[ClaimFacts]:
        """Yield the claims that were given a device."""
        yield from self._given.get(device, {}).values()

    def pinning(self, device: str) -> Iterator[tuple[int, ClaimFacts]]:
        """Yield the indexes that claims say a device has, with the claims."""
        for claim in self._pinned.get(device, {}).values():
            yield dict(claim.pins)[device], claim


def _devices(claim: ClaimFacts) -> Iterator[str]:
    yield from claim.devices
    yield from (device for device, _ in claim.pins)


def _remove(index: dict[str, dict[str, ClaimFacts]], device: str, key: str) -> None:
    index[device].pop(key, None)
    if not index[device]:
        del index[device]
