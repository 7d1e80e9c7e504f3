"""Whether a submission can be taken: what it names exists, its submitter may, and the rules of the team
allow it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

from chamber.errors import MOST_COMPARED, NotAllowed, NotVisible, Refusal
from chamber.words import count, nearest
from teams import rules
from teams.actors import Actor
from teams.durations import duration_text
from teams.job_classes import OrganisationClasses, may_use
from teams.models import Role, Team
from teams.models.job_class import RESERVED_FROM
from teams.permissions import Permission, may, require, roles_on
from teams.rules import EffectiveRules, PriorityLimits
from workloads import images, known
from workloads.credentials import suspicious
from workloads.credentials.naming import KnownCredentials
from workloads.data.mounting import KnownSources
from workloads.environments.completing import KnownEnvironments
from workloads.known import KnownPools, SliceType
from workloads.known_needs import KnownNeeds
from workloads.quantities import WHOLE_MILLI, gpus_text
from workloads.requests import SubmissionRequest, Unreadable, refusal
from workloads.resolved import ResolvedRequest, no_memory_of_its_own, on_devices_of_its_own, resolve


@dataclass(frozen=True, slots=True)
class SubmissionContext:
    """What submissions are checked against, read once for all of them.

    `needed` says what others start after: `KnownNeeds`.
    """

    teams: dict[str, Team]
    unknown: dict[str, str]
    rules: dict[str, EffectiveRules]
    roles: dict[str, set[Role]]
    limits: dict[str, PriorityLimits]
    classes: OrganisationClasses
    needed: KnownNeeds
    pools: KnownPools
    credentials: KnownCredentials
    environments: KnownEnvironments
    sources: KnownSources

    @classmethod
    def read(cls, by: Actor, requests: Sequence[SubmissionRequest]) -> Self:
        """Return the setting of these requests; raise `NotAllowed` for a team. `unknown` are teams that are not there,
        or not for the actor, each with a hint at the nearest that is.

        Eight queries at most, however many teams; one more where some are unknown, one where credentials are named,
        two where environments are, and one where data is mounted.
        """
        slugs = {request.team for request in requests}
        teams = _teams(by, slugs)
        by_team = rules.effective_rules_by_team(teams.values())
        of_teams = {slug: by_team[team.pk] for slug, team in teams.items()}
        environments = KnownEnvironments.read(by, requests)
        mounts = [
            mount
            for request in requests
            for mount in environments.completed(request, teams.get(request.team)).mounts
        ]
        sources = KnownSources.read(by, mounts)
        handed = environments.pulled_by(requests, teams) | sources.read_by(mounts, teams.values())
        roles = {slug: roles_on(by.user, team) for slug, team in teams.items()} if by.user else {}
        return cls(
            teams=teams,
            unknown=_hints(by, slugs - teams.keys()),
            rules=of_teams,
            roles=roles,
            limits={slug: rules.limits_for(held, of_teams[slug]) for slug, held in roles.items()},
            classes=OrganisationClasses.read(teams.values()),
            needed=KnownNeeds.read(by, requests),
            pools=known.pools(),
            credentials=KnownCredentials.read(
                by, handed.union(*(request.credentials for request in requests))
            ),
            environments=environments,
            sources=sources,
        )

    def resolved(self, request: SubmissionRequest) -> ResolvedRequest:
        """Return a request with what it has by its job class."""
        team = self.teams.get(request.team)
        longest = self.rules[team.slug].longest_time_limit_seconds if team else None
        return resolve(request, team, self.classes, longest_seconds=longest)

    def settled(self, request: SubmissionRequest) -> SubmissionRequest:
        """Return a request as it is taken: with what its environment has, and whole GPUs where it may share none."""
        team = self.teams.get(request.team)
        full = self.sources.completed(self.environments.completed(request, team), team)
        return on_devices_of_its_own(full, self.resolved(full))

    def looked_at_again(self) -> Self:
        """Return it with the pools as they are now."""
        return replace(self, pools=known.pools(fresh=True))


def _teams(by: Actor, slugs: Collection[str]) -> dict[str, Team]:
    """Return those of the teams that the actor may see, by slug; raise `NotAllowed` for one that takes nothing of
    theirs.
    """
    teams = {team.slug: team for team in Team.objects.filter(slug__in=slugs)}
    # One answer for both, so that nobody learns which teams there are.
    seen = {
        slug: team
        for slug, team in teams.items()
        if by.user is None or may(by.user, Permission.VIEW_TEAM, team)
    }
    for slug in sorted(seen):
        require(by, Permission.SUBMIT, seen[slug])
    return seen


def _hints(by: Actor, unknown: Collection[str]) -> dict[str, str]:
    if not unknown or by.user is None:
        return dict.fromkeys(unknown, "")
    seen = list(Team.objects.visible_to(by.user).order_by().values_list("slug", flat=True)[:MOST_COMPARED])
    return {slug: nearest(slug, seen) for slug in unknown}


def refusal_by(wrong: Sequence[dict[str, str]], setting: SubmissionContext) -> Refusal:
    """Return one refusal of all mistakes: `NotVisible` where a team is unknown."""
    told = refusal(wrong)
    return NotVisible(told.message, fields=told.fields) if setting.unknown else told


def completed(unreadable: Unreadable, by: Actor) -> Refusal:
    """Return what cannot be read of submissions with what else is wrong with them: teams, pools, GPU types, workloads,
    priorities and time limits that what can be read of them names.
    """
    try:
        setting = SubmissionContext.read(by, [request for request in unreadable.rest if request])
    except NotAllowed:
        return unreadable
    more = _named(unreadable, setting)
    if any(more):
        more = _named(unreadable, setting.looked_at_again())
    wrong = [{**named, **told} for named, told in zip(more, unreadable.wrong, strict=True)]
    return refusal(wrong, unreadable.beside)


def _named(unreadable: Unreadable, setting: SubmissionContext) -> list[dict[str, str]]:
    return [
        request.as_written(_of_names(setting.settled(request), setting)) if request else {}
        for request in unreadable.rest
    ]


def check(request: SubmissionRequest, setting: SubmissionContext) -> dict[str, str]:
    """Return a sentence for each field of a request that cannot be taken; empty where it can."""
    team = setting.teams.get(request.team)
    found = {
        **_of_names(request, setting),
        "gpus": _not_of_slices(request, setting.pools),
        "gpu_memory_mib": no_memory_of_its_own(request, setting.resolved(request)),
        "pods": _too_large(request, team, setting) if team else "",
    }
    return {name: sentence for name, sentence in found.items() if sentence}


def _of_names(request: SubmissionRequest, setting: SubmissionContext) -> dict[str, str]:
    """Return a sentence for each field that names what is not there, or that the team's rules forbid by itself."""
    team, full = setting.teams.get(request.team), setting.resolved(request)
    found = {
        "team": _of_team(request, team, setting),
        "priority": _priority(full, team, setting) if team else "",
        "pools": _unknown(request.pools, setting.pools.by_slug, "pool"),
        "gpu_types": _unknown(request.gpu_types, setting.pools.gpu_types, "GPU type")
        if setting.pools.gpu_types
        else "",
        "time_limit_seconds": _time_limit(full, team, setting.rules[team.slug]) if team else "",
        "depends_on": setting.needed.problem(request),
        "mounts": _mounts(request, team, setting) if team else "",
        "runs_in": setting.environments.problem(request, team) if team else "",
        "image": _image(request, team, setting.rules[team.slug]) if team else "",
        "environment": _looks_secret(request, team, setting.rules[team.slug]) if team else "",
        "array": _looks_secret_in_array(request, team, setting.rules[team.slug]) if team else "",
        "credentials": setting.credentials.problem(
            request.credentials, _variables(request), team, setting.rules[team.slug]
        )
        if team
        else "",
        **full.problems,
    }
    return {name: sentence for name, sentence in found.items() if sentence}


def _of_team(request: SubmissionRequest, team: Team | None, setting: SubmissionContext) -> str:
    if team is None:
        return f"There is no team {request.team!r}.{setting.unknown.get(request.team, '')}"
    return f"{team.name} was archived and takes nothing new." if team.is_archived else ""


def _unknown(named: Sequence[str], known: Collection[str], noun: str) -> str:
    for name in named:
        if name not in known:
            allowed = ", ".join(sorted(known)[:10]) or "none"
            hint = nearest(name, known) or f" There are: {allowed}."
            return f"There is no {noun} {name!r}.{hint}"
    return ""


def _mounts(request: SubmissionRequest, team: Team, setting: SubmissionContext) -> str:
    """Return what is wrong with what a completed request mounts, with the environment that brought it."""
    version = setting.environments.version(request, team)
    given = version.mounts if version else []
    own = [mount for mount in request.mounts if mount.model_dump() not in given]
    if problem := setting.sources.problem(own, team):
        return problem
    problem = setting.sources.problem(request.mounts, team)
    return f"{problem} {version.reference} mounts it." if problem and version else problem


def _image(request: SubmissionRequest, team: Team, allowed: EffectiveRules) -> str:
    # Without one its environment is not there, which is said of that.
    return images.problem(request.image, allowed, team.name) if request.image else ""


def _looks_secret(request: SubmissionRequest, team: Team, allowed: EffectiveRules) -> str:
    return suspicious.problem(request.environment, allowed.plain_variables, team.name)


def _looks_secret_in_array(request: SubmissionRequest, team: Team, allowed: EffectiveRules) -> str:
    if request.array is None:
        return ""
    names = dict.fromkeys(request.array.parameters, "given")
    return suspicious.problem(names, allowed.plain_variables, team.name)


def _variables(request: SubmissionRequest) -> dict[str, str]:
    """Return the variables of a workload, or of each member, by name."""
    parameters = () if request.array is None else request.array.parameters
    return {**request.environment, **dict.fromkeys(parameters, "")}


def _priority(full: ResolvedRequest, team: Team, setting: SubmissionContext) -> str:
    limits = setting.limits.get(team.slug)
    if limits is None:
        return ""
    whose = f", which {full.class_name} has," if "priority" in full.by_class else ""
    if not limits.allow(full.priority):
        return (
            f"Priority {full.priority:,}{whose} is outside your range in {team.name}: {range_text(limits)}."
        )
    tier = setting.classes.covering(full.priority)
    if tier is None or may_use(tier, setting.roles[team.slug]):
        return ""
    return (
        f"Priority {full.priority:,}{whose} is of the tier {tier.name} ({setting.classes.range_of(tier)}), which takes "
        f"the role {Role(tier.least_role).label} or more in {team.name}."
    )


def range_text(limits: PriorityLimits) -> str:
    """Return in words which priorities somebody may give."""
    elastic_max, reserved_max = limits
    elastic = f"0 to {elastic_max} for elastic work"
    if reserved_max is None:
        return f"{elastic}, none for reserved work"
    upto = f"{RESERVED_FROM}" if reserved_max == RESERVED_FROM else f"{RESERVED_FROM} to {reserved_max:,}"
    return f"{elastic}, {upto} for reserved work"


def _time_limit(full: ResolvedRequest, team: Team, allowed: EffectiveRules) -> str:
    longest, asked = allowed.longest_time_limit_seconds, full.time_limit_seconds
    if longest is None or (asked is not None and asked <= longest):
        return ""
    given = f"A time limit of {duration_text(asked)} is" if asked else "No time limit is"
    return f"{given} longer than {team.name} allows: at most {duration_text(longest)}."


def _too_large(request: SubmissionRequest, team: Team, setting: SubmissionContext) -> str:
    if request.gpu_milli is None:
        return ""
    slices = setting.pools.slices_named(request.gpu_types)
    whole = request.pods * max((each.share_milli for each in slices), default=request.gpu_milli)
    largest = setting.rules[team.slug].largest_workload_milli
    if largest is not None and whole > largest:
        return f"It asks for {gpus_text(whole)} in all; {team.name} allows {gpus_text(largest)} at most."
    return _too_many_slices(request, slices, setting) if slices else _larger_than_pools(request, setting)


def _not_of_slices(request: SubmissionRequest, pools: KnownPools) -> str:
    """Refuse pods that ask for more than one slice, or for a part of a MIG slice, and take nothing but slices.

    A replica is a part of a GPU by itself: a part of at most its share is one.
    """
    slices = pools.slices_named(request.gpu_types)
    if not slices:
        return ""
    names = " or ".join(each.name for each in slices)
    noun = "a slice of a GPU" if len(slices) == 1 else "slices of a GPU"
    is_are = f"{names} {'is' if len(slices) == 1 else 'are'} {noun}"
    if request.gpu_milli is None:
        return (
            f"A pod asks for {request.gpu_memory_mib:,} MiB of a GPU, and {is_are}, given out whole: "
            "ask for 1 GPU per pod, which is one slice, and leave the memory out."
        )
    if request.gpu_milli > WHOLE_MILLI:
        each_pod = request.gpu_milli // WHOLE_MILLI
        return (
            f"A pod asks for {gpus_text(request.gpu_milli)}, and {is_are}, of which a pod takes one: ask for "
            f"{request.pods * each_pod:,} pods of 1 GPU each instead of {request.pods:,} of {each_pod:,}."
        )
    fits = [each for each in slices if not each.is_mig and request.gpu_milli <= each.share_milli]
    if request.gpu_milli < WHOLE_MILLI and not fits:
        return (
            f"A pod asks for {gpus_text(request.gpu_milli)}, and {is_are}, given out whole: "
            "ask for 1 GPU per pod, which is one slice."
        )
    return ""


def _too_many_slices(
    request: SubmissionRequest, slices: Sequence[SliceType], setting: SubmissionContext
) -> str:
    """Refuse what starts with more slices than any pool that it accepts has, where all are known to have some."""
    pools = request.pools or list(setting.pools.by_slug)
    sizes = {slug: sum(each.counts.get(slug, 0) for each in slices) for slug in pools}
    if not sizes or (request.pools and 0 in sizes.values()):
        return ""
    slug, size = max(sizes.items(), key=lambda item: (item[1], item[0]))
    if size == 0 or request.starting_pods <= size:
        return ""
    names = " or ".join(each.name for each in slices)
    return (
        f"It starts with {request.starting_pods:,} pods, each on a slice of {names}; pool "
        f"{setting.pools.by_slug[slug].name} has {size:,} of them."
    )


def _larger_than_pools(request: SubmissionRequest, setting: SubmissionContext) -> str:
    """Refuse what needs more GPUs to start than any pool it accepts has, where all of them are known to have
    some.
    """
    needs = request.starting_pods * (request.gpu_milli or 0)
    devices = dict(setting.pools.devices)
    if request.gpu_types or (request.gpu_milli or 0) < WHOLE_MILLI:
        # A pod may also have a slice; which ones, and how many, is for the cycle to say.
        for each in setting.pools.slices.values():
            for slug, there in each.counts.items():
                devices[slug] = devices.get(slug, 0) + there
    sizes = {slug: devices[slug] for slug in request.pools or devices if slug in devices}
    if not sizes or 0 in sizes.values() or needs <= max(sizes.values()) * WHOLE_MILLI:
        return ""
    slug, size = max(sizes.items(), key=lambda item: (item[1], item[0]))
    name = setting.pools.by_slug[slug].name
    where = f"pool {name} has" if len(sizes) == 1 else f"the largest pool it accepts, {name}, has"
    return (
        f"It starts with {count(request.starting_pods, 'pod')} of {gpus_text(request.gpu_milli or 0)}, "
        f"{gpus_text(needs)} at once; {where} {gpus_text(size * WHOLE_MILLI)}."
    )
