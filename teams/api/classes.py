"""Job classes and priority tiers over the API, and what teams narrow of classes."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chamber.errors import one_of
from chamber.rest import require_version
from teams import actions
from teams.actions.job_classes import said_of_class
from teams.actions.tiers import said_of_tier
from teams.api import class_shapes as shapes
from teams.api.requests import actor, one_page, person, team_for, values_of, versioned
from teams.api.teams import IF_MATCH
from teams.job_classes import ClassDefaults, OrganisationClasses
from teams.models import ClassNarrowing, JobClass, PriorityTier, Team

OWN = ("tier", "time_limit_seconds", "max_retries", "sharing")
"""What a team may say of a class."""


def _tier(tier: PriorityTier) -> dict[str, Any]:
    return {**said_of_tier(tier), "version": tier.version}


def _class(row: JobClass) -> dict[str, Any]:
    return {**said_of_class(row), "priority": row.tier.priority, "version": row.version}


class Tiers(APIView):
    """The organisation's priority tiers."""

    @extend_schema(operation_id="tiers_list", responses=shapes.TierShape(many=True))
    def get(self, request: Request) -> Response:
        """List them, the lowest first."""
        rows = PriorityTier.objects.visible_to(person(request))
        return one_page([shapes.TierShape(_tier(tier)).data for tier in rows])

    @extend_schema(request=shapes.NewTier, responses={201: shapes.TierShape})
    def post(self, request: Request) -> Response:
        """Make one; an organisation admin does."""
        actions.require_classes(actor(request))
        values = values_of(request, shapes.NewTier)
        slug, retired = values.pop("slug"), values.pop("retired", False)
        tier = actions.create_tier(by=actor(request), slug=slug, values=values)
        if retired:
            tier = actions.retire_tier(by=actor(request), tier=tier, retired=True)
        return versioned(shapes.TierShape(_tier(tier)).data, tier.version, status=status.HTTP_201_CREATED)


class TierDetail(APIView):
    """One tier."""

    @extend_schema(responses=shapes.TierShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return it."""
        tier = _tier_for(request, slug)
        return versioned(shapes.TierShape(_tier(tier)).data, tier.version)

    @extend_schema(request=shapes.TierPatch, responses=shapes.TierShape, parameters=[IF_MATCH])
    def patch(self, request: Request, slug: str) -> Response:
        """Change it, retire it, or take it back; 409 where a class has a tier that is to be retired."""
        tier = _tier_for(request, slug)
        actions.require_classes(actor(request))
        require_version(request, tier.version)
        tier = actions.save_tier(
            by=actor(request), tier=tier, version=tier.version, changes=values_of(request, shapes.TierPatch)
        )
        return versioned(shapes.TierShape(_tier(tier)).data, tier.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Delete it; 409 where a class or a team has it."""
        actions.delete_tier(by=actor(request), tier=_tier_for(request, slug))
        return Response(status=status.HTTP_204_NO_CONTENT)


class Classes(APIView):
    """The organisation's job classes."""

    @extend_schema(operation_id="classes_list", responses=shapes.JobClassShape(many=True))
    def get(self, request: Request) -> Response:
        """List them in their order, retired ones too."""
        rows = JobClass.objects.visible_to(person(request)).select_related("tier")
        return one_page([shapes.JobClassShape(_class(row)).data for row in rows])

    @extend_schema(request=shapes.NewJobClass, responses={201: shapes.JobClassShape})
    def post(self, request: Request) -> Response:
        """Make one; an organisation admin does."""
        actions.require_classes(actor(request))
        values = values_of(request, shapes.NewJobClass)
        slug, retired = values.pop("slug"), values.pop("retired", False)
        row = actions.create_class(by=actor(request), slug=slug, values=values)
        if retired:
            row = actions.retire_class(by=actor(request), job_class=row, retired=True)
        return versioned(shapes.JobClassShape(_class(row)).data, row.version, status=status.HTTP_201_CREATED)


class ClassDetail(APIView):
    """One job class."""

    @extend_schema(responses=shapes.JobClassShape)
    def get(self, request: Request, slug: str) -> Response:
        """Return it."""
        row = _class_for(request, slug)
        return versioned(shapes.JobClassShape(_class(row)).data, row.version)

    @extend_schema(request=shapes.ClassPatch, responses=shapes.JobClassShape, parameters=[IF_MATCH])
    def patch(self, request: Request, slug: str) -> Response:
        """Change it, retire it, or take it back; it holds for what is submitted from now on."""
        row = _class_for(request, slug)
        actions.require_classes(actor(request))
        require_version(request, row.version)
        row = actions.save_class(
            by=actor(request),
            job_class=row,
            version=row.version,
            changes=values_of(request, shapes.ClassPatch),
        )
        return versioned(shapes.JobClassShape(_class(row)).data, row.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Delete it; 409 where a workload is or was of it: retire it instead."""
        actions.delete_class(by=actor(request), job_class=_class_for(request, slug))
        return Response(status=status.HTTP_204_NO_CONTENT)


class TeamClasses(APIView):
    """What holds of the job classes in a team."""

    @extend_schema(operation_id="team_classes_list", responses=shapes.TeamClassShape(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """List the classes as they are there, and what the team itself says of each."""
        team = team_for(request, slug)
        known = OrganisationClasses.read([team])
        return one_page([_in_team(known, team, each) for each in known.classes.values()])


class TeamClass(APIView):
    """What a team says of one job class."""

    token_scope = "manage"  # noqa: S105 - the scope that a token needs

    @extend_schema(request=shapes.NarrowingEdit, responses=shapes.TeamClassShape, parameters=[IF_MATCH])
    def put(self, request: Request, slug: str, class_slug: str) -> Response:
        """Replace it, for the team and those below; 422 with both values where one is wider than what is above."""
        team = team_for(request, slug)
        stored = ClassNarrowing.objects.filter(team=team, job_class__slug=class_slug).first()
        version = stored.version if stored else 0
        require_version(request, version)
        values = values_of(request, shapes.NarrowingEdit)
        actions.narrow_class(by=actor(request), team=team, slug=class_slug, version=version, values=values)
        known = OrganisationClasses.read([team])
        body = _in_team(known, team, known.classes[class_slug])
        return versioned(body, body["version"])


def _in_team(known: OrganisationClasses, team: Team, row: ClassDefaults) -> dict[str, Any]:
    found = known.of(team, row.slug) or row
    narrowing = known.narrowings.get(team.pk, {}).get(row.slug)
    said = narrowing.said() if narrowing else {}
    own = {name: said.get(name) for name in OWN}
    body = {
        "slug": found.slug,
        "name": found.name,
        "tier": found.tier.slug,
        "priority": found.tier.priority,
        "time_limit_seconds": found.time_limit_seconds,
        "max_retries": found.max_retries,
        "on_preemption": found.on_preemption,
        "sharing": found.sharing,
        "retired": found.is_retired,
        "own": own,
        "version": narrowing.version if narrowing else 0,
    }
    return dict(shapes.TeamClassShape(body).data)


def _tier_for(request: Request, slug: str) -> PriorityTier:
    return one_of(PriorityTier.objects.visible_to(person(request)), "tier", slug=slug)


def _class_for(request: Request, slug: str) -> JobClass:
    rows = JobClass.objects.visible_to(person(request)).select_related("tier")
    return one_of(rows, "job class", slug=slug)
