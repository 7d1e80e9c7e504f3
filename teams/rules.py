"""What members may ask for: the rules of a team and those above it, made into one, and priorities by role.

Down the tree each key is inherited. A team's own value holds where it is stricter; a wider one holds only
where the root says that teams below may widen them (`may_be_widened`) and no team between says no. The root
may widen what is built in.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from teams.image_names import full_pattern
from teams.models import ANY, PriorityRange, Role, Team, TeamPolicy, TeamRules
from teams.permissions import roles_on

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

RESEARCHERS = PriorityRange(elastic_max=75, reserved_max=100)
LEADS = PriorityRange(elastic_max=99, reserved_max=199)
UNLIMITED = PriorityRange(elastic_max=99, reserved_max=1_000_000)
SERVICE_ACCOUNTS = ("default",)
VOLUMES = (
    *("configMap", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
)
"""What a Job in a team's own namespace may mount where nobody says otherwise: what lies in the namespace itself."""
SECRETS: tuple[str, ...] = ()
"""Which Secrets of its namespace such a Job may read where nobody says otherwise: who may create Jobs there may not
read every credential that lies there."""
CONFIG_MAPS = (ANY,)
CLUSTER_SECRETS: tuple[str, ...] = ()
"""Which Secrets of clusters workloads may be handed where nobody says otherwise."""
PLAIN_VARIABLES: tuple[str, ...] = ()
"""Variables that look like secrets and are none, where nobody says otherwise."""

IMAGES = (ANY,)
"""Which images workloads may run where nobody says otherwise."""


class PriorityLimits(NamedTuple):
    """Highest priorities somebody may ask for; -1 where they may not submit, None without reserved work."""

    elastic_max: int
    reserved_max: int | None

    def allow(self, priority: int) -> bool:
        """Return whether a workload of this priority may be submitted."""
        if priority < 100:
            return 0 <= priority <= self.elastic_max
        return self.reserved_max is not None and priority <= self.reserved_max

    def cap(self, priority: int) -> int:
        """Return the highest allowed priority up to this one, of which reserved work keeps its class if it can."""
        if priority >= 100 and self.reserved_max is not None:
            return min(priority, self.reserved_max)
        return min(priority, self.elastic_max)


@dataclass(frozen=True, slots=True)
class EffectiveRules:
    """What holds in a team. None is no limit."""

    researcher_priority: PriorityRange = RESEARCHERS
    lead_priority: PriorityRange = LEADS
    largest_workload_milli: int | None = None
    longest_time_limit_seconds: int | None = None
    service_accounts: tuple[str, ...] = SERVICE_ACCOUNTS
    volumes: tuple[str, ...] = VOLUMES
    secrets: tuple[str, ...] = SECRETS
    config_maps: tuple[str, ...] = CONFIG_MAPS
    cluster_secrets: tuple[str, ...] = CLUSTER_SECRETS
    plain_variables: tuple[str, ...] = PLAIN_VARIABLES
    images: tuple[str, ...] = IMAGES
    digest_required: bool = False
    may_be_widened: bool = True


def effective_rules(team: Team) -> EffectiveRules:
    """Return what holds in the team (one query)."""
    return effective_by(team, policies_of(team))


def policies_of(team: Team) -> Mapping[UUID, TeamPolicy]:
    """Return what was written for the team and those above it, by team (one query)."""
    return {policy.pk: policy for policy in TeamPolicy.objects.filter(team__in=team.ancestor_ids())}


def effective_by(team: Team, policies: Mapping[UUID, TeamPolicy]) -> EffectiveRules:
    """Return what holds in the team by its policies and those above it."""
    way = (policies.get(team_id) for team_id in team.ancestor_ids())
    return merged(policy.typed if policy else TeamRules() for policy in way)


def effective_rules_by_team(teams: Iterable[Team]) -> Mapping[UUID, EffectiveRules]:
    """Return what holds in each of the teams (one query for all)."""
    ways = {team.pk: team.ancestor_ids() for team in teams}
    concerned = TeamPolicy.objects.filter(team__in={team_id for way in ways.values() for team_id in way})
    rules = {policy.pk: policy.typed for policy in concerned}
    return {pk: merged(rules.get(team_id, TeamRules()) for team_id in way) for pk, way in ways.items()}


def merged(way: Iterable[TeamRules]) -> EffectiveRules:
    """Return the rules at the end of a way from the root down."""
    now = EffectiveRules()
    for level, rules in enumerate(way):
        now = merged_below(now, rules)
        if level == 0:
            # The root may widen what is built in; it does not pass that on unasked.
            now = replace(now, may_be_widened=bool(rules.may_be_widened))
    return now


def merged_below(above: EffectiveRules, rules: TeamRules) -> EffectiveRules:
    """Return what holds in a team with these rules below one where `above` holds."""
    wide = above.may_be_widened
    return EffectiveRules(
        researcher_priority=_priorities(above.researcher_priority, rules.researcher_priority, wide),
        lead_priority=_priorities(above.lead_priority, rules.lead_priority, wide),
        largest_workload_milli=_limit(above.largest_workload_milli, rules.largest_workload_milli, wide),
        longest_time_limit_seconds=_limit(
            above.longest_time_limit_seconds, rules.longest_time_limit_seconds, wide
        ),
        service_accounts=_names(above.service_accounts, rules.service_accounts, wide),
        volumes=_names(above.volumes, rules.volumes, wide),
        secrets=_names(above.secrets, rules.secrets, wide),
        config_maps=_names(above.config_maps, rules.config_maps, wide),
        cluster_secrets=_patterns(above.cluster_secrets, rules.cluster_secrets, wide),
        plain_variables=_patterns(above.plain_variables, rules.plain_variables, wide),
        images=_patterns(above.images, rules.images, wide, meant=full_pattern),
        digest_required=_demand(rules.digest_required, above.digest_required, wide),
        may_be_widened=wide and rules.may_be_widened is not False,
    )


def wider_than_allowed(above: EffectiveRules, rules: TeamRules) -> list[str]:
    """Return the keys whose values are wider than what is inherited although it may not be widened."""
    result = merged_below(above, rules)
    keys = [key for key in TeamRules.model_fields if key != "may_be_widened"]
    return [key for key in keys if getattr(rules, key) not in (None, getattr(result, key))]


def _limit(above: int | None, own: int | None, wide: bool) -> int | None:
    if own is None:
        return above
    return own if wide or above is None else min(above, own)


def _names(above: tuple[str, ...], own: tuple[str, ...] | None, wide: bool) -> tuple[str, ...]:
    if own is None:
        return above
    if wide or ANY in above:
        return own
    return above if ANY in own else tuple(name for name in own if name in above)


def _patterns(
    above: tuple[str, ...],
    own: tuple[str, ...] | None,
    wide: bool,
    *,
    meant: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the patterns that hold below: where they may not be widened, those of its own that one above covers.

    They are compared by what is `meant` with each.
    """
    if own is None:
        return above
    if wide:
        return own
    return tuple(
        each
        for each in own
        if any(each == other or fnmatchcase(meant(each), meant(other)) for other in above)
    )


def _demand(own: bool | None, above: bool, wide: bool) -> bool:
    """Return whether something is demanded below: a team can drop what is demanded above only where it may widen."""
    if own is None:
        return above
    return own if wide else own or above


def _priorities(above: PriorityRange, own: PriorityRange | None, wide: bool) -> PriorityRange:
    if own is None or wide:
        return own or above
    reserved = [above.reserved_max, own.reserved_max]
    return PriorityRange(
        elastic_max=min(above.elastic_max, own.elastic_max),
        reserved_max=None if None in reserved else min(value for value in reserved if value is not None),
    )


def kubectl_limits(rules: EffectiveRules) -> PriorityLimits:
    """Return the highest priorities of what nobody known to Chamber submits: those of the team's researchers."""
    given = rules.researcher_priority
    return PriorityLimits(given.elastic_max, given.reserved_max)


def priority_limits(user: "User | AnonymousUser", team: Team) -> PriorityLimits:
    """Return the highest priorities the user may ask for in the team, by the best role that reaches it."""
    return limits_for(roles_on(user, team), effective_rules(team))


def limits_for(roles: Iterable[Role], rules: EffectiveRules) -> PriorityLimits:
    """Return the highest priorities that these roles give under these rules."""
    held = set(roles)
    if held & {Role.ADMIN, Role.ORG_ADMIN}:
        return PriorityLimits(UNLIMITED.elastic_max, UNLIMITED.reserved_max)
    ranges = []
    if Role.RESEARCHER in held or Role.LEAD in held:
        ranges.append(rules.researcher_priority)
    if Role.LEAD in held:
        ranges.append(rules.lead_priority)
    if not ranges:
        return PriorityLimits(-1, None)
    reserved = [given.reserved_max for given in ranges if given.reserved_max is not None]
    return PriorityLimits(max(given.elastic_max for given in ranges), max(reserved, default=None))
