"""What a submission has by its job class and its team: read once, resolved by one function for every way in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from teams.durations import duration_text
from teams.models import ClassNarrowing, DeviceSharing, JobClass, PriorityTier, Role, Team
from teams.models.job_class import MOST_PRIORITY, RESERVED_FROM, TIER_ROLES
from teams.rules import PriorityLimits

_AS_ADMIN = frozenset({Role.ADMIN, Role.ORG_ADMIN})


@dataclass(frozen=True, slots=True)
class ClassDefaults:
    """What workloads of a class have in a team where their submission says nothing."""

    slug: str
    name: str
    tier: PriorityTier
    time_limit_seconds: int | None
    max_retries: int
    on_preemption: str
    sharing: DeviceSharing
    is_retired: bool = False

    @classmethod
    def of(cls, row: JobClass) -> Self:
        """Return those of the organisation. The class's tier must be loaded."""
        return cls(
            slug=row.slug,
            name=row.name,
            tier=row.tier,
            time_limit_seconds=row.time_limit_seconds,
            max_retries=row.max_retries,
            on_preemption=row.on_preemption,
            sharing=DeviceSharing(row.sharing),
            is_retired=row.is_retired,
        )

    def narrowed(self, by: ClassNarrowing) -> Self:
        """Return them with what a team says of them, as far as it is stricter."""
        limits = [each for each in (self.time_limit_seconds, by.time_limit_seconds) if each is not None]
        tiers = [self.tier, by.tier] if by.tier is not None else [self.tier]
        retries = self.max_retries if by.max_retries is None else min(self.max_retries, by.max_retries)
        sharing = DeviceSharing(by.sharing) if by.sharing else self.sharing
        return replace(
            self,
            tier=min(tiers, key=lambda tier: tier.priority),
            time_limit_seconds=min(limits, default=None),
            max_retries=retries,
            sharing=max(self.sharing, sharing, key=lambda each: each.strictness),
        )

    def shares(self, priority: int) -> bool:
        """Return whether a workload of this priority may have a GPU together with others."""
        if self.sharing is DeviceSharing.ELASTIC:
            return priority < RESERVED_FROM
        return self.sharing is DeviceSharing.ALWAYS

    @property
    def limit_text(self) -> str:
        """Return its time limit in words."""
        return duration_text(self.time_limit_seconds) or "no limit"


@dataclass(frozen=True, slots=True)
class OrganisationClasses:
    """All classes by slug and all tiers, lowest first, retired ones too; what teams narrow, by team and class."""

    tiers: tuple[PriorityTier, ...]
    classes: Mapping[str, ClassDefaults]
    default: str
    narrowings: Mapping[UUID, Mapping[str, ClassNarrowing]]

    @classmethod
    def read(cls, teams: Iterable[Team] = ()) -> Self:
        """Return them with what these teams and those above narrow (2 queries, 3 with teams)."""
        tiers = {tier.pk: tier for tier in PriorityTier.objects.all()}
        classes, default, slugs = {}, "", {}
        for row in JobClass.objects.all():
            row.tier = tiers[row.tier_id]
            classes[row.slug] = ClassDefaults.of(row)
            slugs[row.pk] = row.slug
            default = row.slug if row.is_default else default
        concerned = {team_id for team in teams for team_id in team.ancestor_ids()}
        found: dict[UUID, dict[str, ClassNarrowing]] = {}
        for narrowing in ClassNarrowing.objects.filter(team__in=concerned) if concerned else ():
            narrowing.tier = tiers[narrowing.tier_id] if narrowing.tier_id else None
            found.setdefault(narrowing.team_id, {})[slugs[narrowing.job_class_id]] = narrowing
        return cls(tuple(tiers.values()), classes, default, found)

    def of(self, team: Team, slug: str) -> ClassDefaults | None:
        """Return what holds of a class in a team; None where there is no such class."""
        return self._along(team.ancestor_ids(), slug)

    def above(self, team: Team, slug: str) -> ClassDefaults | None:
        """Return what holds of a class above a team."""
        return self._along(team.ancestor_ids()[:-1], slug)

    def _along(self, way: Iterable[UUID], slug: str) -> ClassDefaults | None:
        found = self.classes.get(slug)
        for team_id in way if found else ():
            if found and (narrowing := self.narrowings.get(team_id, {}).get(slug)):
                found = found.narrowed(narrowing)
        return found

    @property
    def taken(self) -> list[ClassDefaults]:
        """Return the classes that submissions may name, in their order."""
        return [each for each in self.classes.values() if not each.is_retired]

    @property
    def named(self) -> dict[str, PriorityTier]:
        """Return the tiers that submissions may name, by slug, lowest first."""
        return {tier.slug: tier for tier in self.tiers if not tier.is_retired}

    def covering(self, priority: int) -> PriorityTier | None:
        """Return the tier that a priority belongs to: the highest that does not begin above it; None below all."""
        of_class = (tier for tier in self.named.values() if tier.is_reserved == (priority >= RESERVED_FROM))
        return max(
            (tier for tier in of_class if tier.priority <= priority),
            key=lambda tier: tier.priority,
            default=None,
        )

    def range_of(self, tier: PriorityTier) -> str:
        """Return the priorities that a tier covers, in words: "75 to 99"."""
        above = [each.priority for each in self.named.values() if each.priority > tier.priority]
        # The two classes are never one tier's.
        bounds = [*above, RESERVED_FROM] if tier.priority < RESERVED_FROM else [*above, MOST_PRIORITY + 1]
        last = min(bounds) - 1
        return f"{tier.priority:,}" if last == tier.priority else f"{tier.priority:,} to {last:,}"

    def for_priority_class(self, name: str) -> PriorityTier | None:
        """Return the tier of Jobs of a PriorityClass; None where no tier has it."""
        return next((tier for tier in self.named.values() if name in tier.priority_classes), None)

    def cap(self, priority: int, roles: Iterable[Role]) -> int:
        """Return the highest priority up to this one that these roles may use by the tiers."""
        held = set(roles)
        tier = self.covering(priority)
        while tier is not None and tier.priority > 0 and not may_use(tier, held):
            priority = tier.priority - 1
            tier = self.covering(priority)
        return priority

    def offered(self, limits: PriorityLimits, roles: Iterable[Role]) -> dict[str, int]:
        """Return the priorities of the tiers, by slug, lowest first, that these limits and roles let somebody use."""
        held = set(roles)
        return {
            slug: tier.priority
            for slug, tier in self.named.items()
            if limits.allow(tier.priority) and may_use(tier, held)
        }


def may_use(tier: PriorityTier, roles: Iterable[Role]) -> bool:
    """Return whether who has these roles on a team may use a tier's priorities there."""
    held = set(roles)
    if held & _AS_ADMIN:
        return True
    return any(role in held for role in TIER_ROLES[TIER_ROLES.index(Role(tier.least_role)) :])
