"""The pools and how many GPUs each has, as each process knew them some seconds ago.

A submission names pools and is measured against their size: counting devices for each would cost more than storing it.
What is refused by old knowledge is looked at again. Each announcement goes to the pools' queues, which have to be named
only: nobody who announces, maybe with rows locked, counts anything.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, F, Min, Model, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Cast
from pydantic import ValidationError

from teams.models import Pool, PoolPolicy
from workloads import defaults
from workloads.defaults import PerGpu
from workloads.quantities import gpus_text

KEPT_SECONDS = 10.0
WHOLE, MIG = "whole", "mig"
"""How devices are cut, as the rows above say it."""


@dataclass(frozen=True, slots=True)
class SliceType:
    """A GPU type that is a slice of a GPU: of a MIG profile, or a replica. `counts` are by the slugs of pools."""

    name: str
    share_milli: int
    is_mig: bool
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AskedSlices:
    """What a workload that takes only slices asks for: one slice of any of these types for each pod."""

    pods: int
    types: tuple[SliceType, ...]

    @property
    def milli(self) -> int:
        """Return the milli-GPUs that they count as, at most."""
        return self.pods * max(each.share_milli for each in self.types)

    @property
    def text(self) -> str:
        """Return it in words: "4 slices of mig-1g.10gb (0.572 GPUs)"."""
        least = self.pods * min(each.share_milli for each in self.types)
        upto = "" if least == self.milli else "up to "
        names = " or ".join(each.name for each in self.types)
        noun = "slice" if self.pods == 1 else "slices"
        return f"{self.pods:,} {noun} of {names} ({upto}{gpus_text(self.milli)})"


@dataclass(frozen=True, slots=True)
class KnownPools:
    """All pools by slug. `devices` counts their GPUs by slug, those of nodes that are down included: they may come
    back. `gpu_types` are those of all pools together, `slices` those among them that are no GPUs; `per_gpu` is what
    their pods get with each GPU by default.
    """

    by_slug: Mapping[str, Pool]
    devices: Mapping[str, int]
    gpu_types: frozenset[str]
    slices: Mapping[str, SliceType]
    per_gpu: Mapping[str, PerGpu]
    read_at: float

    def slices_named(self, gpu_types: Iterable[str]) -> list[SliceType]:
        """Return the slices that these types are; empty where any of them is a GPU, unknown, or none is named."""
        named = list(gpu_types)
        return [self.slices[name] for name in named] if all(name in self.slices for name in named) else []

    def least_milli(self, gpu_milli: int | None, gpu_types: Iterable[str]) -> int:
        """Return the least of a GPU that a pod can get which asks for so many (None = memory of one) of these types; a
        slice is its share.
        """
        shares = [self.slices[name].share_milli for name in gpu_types if name in self.slices]
        return min([defaults.SMALLEST_SHARE_MILLI if gpu_milli is None else gpu_milli, *shares])


@dataclass(frozen=True, slots=True)
class _Named:
    """The slugs of the pools by id."""

    slugs: Mapping[str, str]
    read_at: float


_known: KnownPools | None = None
_named: _Named | None = None


def pools(*, fresh: bool = False) -> KnownPools:
    """Return the pools as they were at most 10 seconds ago, or as they are now (3 queries).

    Whoever is read here can be named at once.
    """
    global _known, _named  # noqa: PLW0603 - one per process
    known = _known
    if known is None or fresh or time.monotonic() - known.read_at > KEPT_SECONDS:
        known = _known = _read()
        _named = _Named({str(pool.pk): slug for slug, pool in known.by_slug.items()}, known.read_at)
    return known


def asked_slices(gpu_types: Iterable[str], pods: int) -> AskedSlices | None:
    """Return what is asked for by who names only slices; None by who may take a GPU (2 queries at most)."""
    named = list(gpu_types)
    types = pools().slices_named(named) if named else []
    return AskedSlices(pods, tuple(types)) if types else None


def per_gpu(pool: Pool) -> PerGpu:
    """Return what a pool's pods get by default with each GPU, as it is now (1 query)."""
    return _per_gpu([pool])[pool.slug]


def slugs() -> Mapping[str, str]:
    """Return the slugs of the pools by id, as they were at most 10 seconds ago (1 query)."""
    global _named  # noqa: PLW0603 - one per process
    named = _named
    if named is None or time.monotonic() - named.read_at > KEPT_SECONDS:
        found = Pool.objects.order_by().values_list("pk", "slug")
        named = _named = _Named({str(pk): slug for pk, slug in found}, time.monotonic())
    return named.slugs


def forget() -> None:
    """Have the next to ask look at the tables."""
    global _known, _named  # noqa: PLW0603 - one per process
    _known = _named = None


def _read() -> KnownPools:
    """Read them; nodes are only reached by their relation, for they lie above."""
    present = Q(nodes__gone_at__isnull=True, nodes__devices__foreign=False)
    of_types = Pool.objects.order_by().values_list(
        "slug", "nodes__devices__gpu_type", "nodes__devices__slicing", "nodes__devices__share_milli"
    )
    counted = list(of_types.annotate(devices=Count("nodes__devices", filter=present)))
    rows = list(Pool.objects.all())
    devices = dict.fromkeys((pool.slug for pool in rows), 0)
    # Of what is not there any more, old rows may say that it was whole.
    whole = {gpu_type for _, gpu_type, slicing, _, there in counted if slicing == WHOLE and there}
    slices: dict[str, SliceType] = {}
    for slug, gpu_type, slicing, share_milli, count in counted:
        if slicing == WHOLE:
            devices[slug] = devices.get(slug, 0) + count
        elif gpu_type and gpu_type not in whole:
            before = slices.get(gpu_type, SliceType(gpu_type, 0, slicing == MIG, {}))
            counts = {**before.counts, slug: before.counts.get(slug, 0) + count}
            share = max(before.share_milli, share_milli)
            slices[gpu_type] = SliceType(gpu_type, share, before.is_mig or slicing == MIG, counts)
    return KnownPools(
        by_slug={pool.slug: pool for pool in rows},
        devices=devices,
        gpu_types=frozenset(gpu_type for _, gpu_type, *_ in counted if gpu_type),
        slices=slices,
        per_gpu=_per_gpu(rows),
        read_at=time.monotonic(),
    )


def _per_gpu(pools: Iterable[Pool]) -> dict[str, PerGpu]:
    """Return what pods get by default with each GPU, by the pools' slugs (1 query)."""
    nodes = _rows_of(Pool, "nodes")
    devices = _rows_of(nodes.model, "devices").filter(node=OuterRef("pk")).order_by()
    # A slice counts as its share of a GPU, not as one.
    milli = Subquery(devices.values("node").annotate(milli=Sum("share_milli")).values("milli"))
    there = nodes.filter(gone_at__isnull=True, pool__isnull=False).order_by().annotate(milli=milli)
    least = (
        there.filter(milli__gt=0)
        .values("pool")
        .annotate(cpu=Min(_for_each_gpu("cpu_milli")), memory=Min(_for_each_gpu("memory_mib")))
    )
    known = {pool: (cpu, memory) for pool, cpu, memory in least.values_list("pool", "cpu", "memory")}
    found = {}
    for pool in pools:
        cpu, memory = known.get(pool.pk, (None, None))
        rules = _rules(pool)
        found[pool.slug] = defaults.per_gpu(
            cpu=rules.cpu_per_gpu,
            memory_mib=rules.memory_mib_per_gpu,
            least_cpu_milli=cpu,
            least_memory_mib=memory,
        )
    return found


def _for_each_gpu(amount: str) -> CombinedExpression:
    """Return what a node has of an amount for each of its GPUs, which are `milli` thousandths; rounded down."""
    # Whole numbers of this size need 64 bits.
    return Cast(F(amount), BigIntegerField()) * defaults.WHOLE_MILLI / F("milli")


def _rows_of(model: type[Model], relation: str) -> QuerySet[Model]:
    """Return all rows that a relation leads to; their app lies above this one."""
    related = model._meta.get_field(relation).related_model
    assert isinstance(related, type)  # noqa: S101 - the relation has a model
    return related._default_manager.all()


def _rules(pool: Pool) -> PoolPolicy:
    """Return a pool's policy; its defaults where it cannot be read, for then the pool is paused."""
    try:
        return pool.rules
    except ValidationError:
        return PoolPolicy()
