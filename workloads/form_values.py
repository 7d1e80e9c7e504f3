"""What the submit form shows: proposed by a job class in a team, or as another workload was submitted."""

import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from django.http import QueryDict

from teams.durations import duration_text
from teams.job_classes import ClassDefaults, OrganisationClasses
from teams.models import Team
from teams.rules import effective_rules_by_team
from workloads.arrays import asked as arrays
from workloads.forms import LISTS, OTHER, PAIRS, SubmitForm, teams_to_submit_to
from workloads.requests import NO_LIMIT
from workloads.resolved import shortest

if TYPE_CHECKING:
    from chamber.models import User


@dataclass(frozen=True, slots=True)
class Proposals:
    """What classes propose in the teams that somebody may submit to, by the teams' slugs."""

    classes: OrganisationClasses
    teams: Mapping[str, Team]
    longest: Mapping[str, int | None]

    @classmethod
    def read(cls, user: "User", *slugs: str) -> Self:
        """Return those of the teams with these slugs, and of the first that they may submit to (5 queries)."""
        rows = teams_to_submit_to(user)
        first = rows.first()
        wanted = {slug.replace("\x00", "") for slug in slugs if slug}
        teams = [*filter(None, [first]), *(rows.filter(slug__in=wanted) if wanted else ())]
        rules = effective_rules_by_team(teams)
        return cls(
            OrganisationClasses.read(teams),
            {team.slug: team for team in teams},
            {team.slug: rules[team.pk].longest_time_limit_seconds for team in teams},
        )

    def of(self, job_class: str, team: str) -> dict[str, str]:
        """Return what the form proposes for a class in a team."""
        slug = team if team in self.teams else next(iter(self.teams), "")
        named = job_class if job_class in self.classes.classes else self.classes.default
        found = self._defaults(named, slug)
        if found is None:
            return {}
        limit = shortest(found.time_limit_seconds, self.longest.get(slug))
        return {
            "job_class": named,
            "tier": found.tier.slug if found.tier.slug in self.classes.named else OTHER,
            "priority": "" if found.tier.slug in self.classes.named else str(found.tier.priority),
            "time_limit_seconds": _limit_text(limit),
            "max_retries": str(found.max_retries),
            "on_preemption": found.on_preemption,
        }

    def _defaults(self, job_class: str, team: str) -> ClassDefaults | None:
        row = self.teams.get(team)
        return self.classes.of(row, job_class) if row is not None else self.classes.classes.get(job_class)


def _limit_text(seconds: int | None) -> str:
    """Return a time limit as people write one: 24h rather than 1d."""
    hours, rest = divmod(seconds or 0, 3600)
    return f"{hours}h" if 0 < hours < 100 and not rest else duration_text(seconds)


def first_values(proposals: Proposals, *, job_class: str = "", team: str = "") -> dict[str, Any]:
    """Return what an empty form shows for a job class in a team."""
    return {
        "pods": "1",
        "gpus": "1",
        "max_requeues": "20",
        "grace_seconds": "30s",
        "token": uuid.uuid4().hex,
        **proposals.of(job_class, team),
    }


def values_after_change(data: QueryDict, proposals: Proposals) -> dict[str, Any]:
    """Return what the form shows after another class or team was chosen: its proposals, but for what somebody typed."""
    before = proposals.of(data.get("proposed_for", ""), data.get("proposed_in", ""))
    typed = {
        name: data[name]
        for name in SubmitForm.base_fields
        if name in data and name != "token" and data[name] != before.get(name)
    }
    return first_values(proposals, job_class=data.get("job_class", ""), team=data.get("team", "")) | typed


def values_of(content: Mapping[str, Any], proposals: Proposals) -> dict[str, Any]:
    """Return what the form shows for a submission as `manifests.content_of` says it; for clones."""
    shown: dict[str, Any] = {**first_values(proposals), "gpus": ""}
    for name, value in content.items():
        if name in LISTS:
            shown[name] = ",".join(value)
        elif name in PAIRS:
            shown[name] = "\n".join(
                # A value that is not shown has to be written anew: the form refuses a line without one.
                key if text is None else f"{key}={text}"
                for key, text in value.items()
            )
        elif name == "array":
            asked = arrays.read(value)
            shown[name] = asked.text() if asked is not None else ""
        elif name != "command":
            shown[name] = value
    limit = content.get("time_limit", NO_LIMIT)
    shown["time_limit_seconds"] = "" if limit == NO_LIMIT else limit
    shown["command"] = command_text(content.get("command", []))
    names = {tier.priority: slug for slug, tier in proposals.classes.named.items()}
    shown["tier"] = names.get(content["priority"], OTHER)
    return shown


def command_text(command: list[str]) -> str:
    """Return a command as the form takes it: what sh -c runs, or its words quoted for that."""
    if command[:2] == ["sh", "-c"] and len(command) == 3:
        return command[2]
    return shlex.join(command)
