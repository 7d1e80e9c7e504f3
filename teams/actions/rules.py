"""Setting what a team's members may ask for."""

from django.db import transaction
from django.db.models import F

from chamber import live
from chamber.errors import Conflict, Refusal, StaleVersion
from teams import audit
from teams.actors import Actor
from teams.models import Team, TeamPolicy, TeamRules
from teams.permissions import Permission, require
from teams.picture import lock_tree
from teams.rules import EffectiveRules, effective_rules, wider_than_allowed

READABLE = ("secrets", "config_maps", "cluster_secrets", "plain_variables", "images", "digest_required")
"""Rules that releases before them cannot read: they are stored apart."""


def set_rules(*, by: Actor, team: Team, version: int, rules: TeamRules) -> TeamPolicy:
    """Replace the team's own rules; return them. `version` is that of its policy, 0 where it has none yet.

    Refused where a value is wider than the teams above allow. They hold for what is submitted from now on.
    """
    with transaction.atomic():
        lock_tree()
        team = Team.objects.select_related("parent").get(pk=team.pk)
        require(by, Permission.MANAGE_TEAM, team)
        if team.is_archived:
            raise Conflict(f"{team.name} is archived. Restore it before you change it.")
        if team.parent:
            _refuse_wider(team, effective_rules(team.parent), rules)
        stored = TeamPolicy.objects.filter(team=team).first()
        if version != (stored.version if stored else 0):
            raise StaleVersion(
                f"Somebody changed the rules of {team.name} since you read them. "
                "Look again and repeat your change."
            )
        before, after = _said(stored.typed if stored else TeamRules()), _said(rules)
        if before == after and stored:
            return stored
        _write(team, stored, dict(after))
        audit.record(by=by, action="team.rules-changed", target=team, before=before, after=after)
        live.announce("teams")
    return TeamPolicy.objects.get(team=team)


def _said(rules: TeamRules) -> dict[str, object]:
    return rules.model_dump(mode="json", exclude_none=True)


def _write(team: Team, stored: TeamPolicy | None, rules: dict[str, object]) -> None:
    readable = {key: rules.pop(key) for key in READABLE if key in rules} or None
    if stored is None:
        TeamPolicy.objects.create(team=team, rules=rules, readable=readable)
        return
    row = TeamPolicy.objects.filter(team=team, version=stored.version)
    row.update(rules=rules, readable=readable, version=F("version") + 1)


def _refuse_wider(team: Team, above: EffectiveRules, rules: TeamRules) -> None:
    wider = wider_than_allowed(above, rules)
    if not wider:
        return
    problems = {
        key: f"{_told(getattr(rules, key))} is wider than {_told(getattr(above, key))}, which {team.name} "
        "inherits and which may not be widened here."
        for key in wider
    }
    raise Refusal(" ".join(problems.values()), fields=problems, code="wider-than-allowed")


def _told(value: object) -> str:
    """Return a value of the rules for a sentence."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    elastic, reserved = getattr(value, "elastic_max", None), getattr(value, "reserved_max", None)
    if elastic is None:
        return str(value)
    return f"elastic up to {elastic}, " + (f"reserved up to {reserved}" if reserved else "no reserved work")
