"""What a team's members may ask for."""

from typing import Any

from drf_spectacular.utils import extend_schema
from pydantic import ValidationError
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber import invalid
from chamber.rest import require_version
from teams import actions
from teams.api import shapes
from teams.api.requests import actor, team_for, values_of, versioned
from teams.api.shapes import in_gpus
from teams.api.teams import IF_MATCH
from teams.models import PriorityRange, Team, TeamPolicy, TeamRules
from teams.rules import EffectiveRules, effective_rules


def _body(rules: TeamRules | EffectiveRules) -> dict[str, Any]:
    return {
        "researcher_priority": _range(rules.researcher_priority),
        "lead_priority": _range(rules.lead_priority),
        "largest_workload": in_gpus(rules.largest_workload_milli),
        "longest_time_limit_seconds": rules.longest_time_limit_seconds,
        "service_accounts": rules.service_accounts,
        "volumes": rules.volumes,
        "secrets": rules.secrets,
        "config_maps": rules.config_maps,
        "cluster_secrets": rules.cluster_secrets,
        "plain_variables": rules.plain_variables,
        "images": rules.images,
        "digest_required": rules.digest_required,
        "may_be_widened": rules.may_be_widened,
    }


def _range(given: PriorityRange | None) -> dict[str, int | None] | None:
    return {"elastic_max": given.elastic_max, "reserved_max": given.reserved_max} if given else None


def _answer(team: Team) -> Response:
    policy = TeamPolicy.objects.filter(team=team).first()
    version = policy.version if policy else 0
    own = policy.typed if policy else TeamRules()
    body = {"own": _body(own), "effective": _body(effective_rules(team)), "version": version}
    return versioned(body, version)


def typed_rules(values: dict[str, Any]) -> TeamRules:
    """Return rules, typed; raise a `ValidationError` with a sentence for each value that cannot be."""
    try:
        return TeamRules.model_validate(values)
    except ValidationError as error:
        raise serializers.ValidationError(invalid.sentences(error)) from error


class Rules(APIView):
    """The rules of a team."""

    @extend_schema(responses=shapes.TeamRulesShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return its own rules and what holds there by those above."""
        return _answer(team_for(request, slug))

    @extend_schema(request=shapes.RulesShape, responses=shapes.TeamRulesShape, parameters=[IF_MATCH])
    def put(self, request: Request, slug: str) -> Response:
        """Replace its own rules; what is absent or null is inherited."""
        team = team_for(request, slug)
        policy = TeamPolicy.objects.filter(team=team).first()
        version = policy.version if policy else 0
        require_version(request, version)
        values = values_of(request, shapes.RulesShape)
        if "largest_workload" in values:
            values["largest_workload_milli"] = values.pop("largest_workload")
        actions.set_rules(by=actor(request), team=team, version=version, rules=typed_rules(values))
        return _answer(team)
