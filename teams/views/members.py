"""Giving and taking roles on a team's page."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from chamber.errors import NotVisible, Refusal
from chamber.http import posted_from
from teams import actions
from teams.forms import MemberForm, show_refusal
from teams.models import Binding, Role
from teams.permissions import Permission, grantable, require
from teams.views.requests import actor, person, team_for
from teams.views.team import render_team


@posted_from("teams:detail", "slug")
def add(request: HttpRequest, slug: str) -> HttpResponse:
    """Give somebody a role."""
    team = team_for(request, slug)
    require(actor(request), Permission.MANAGE_MEMBERS, team)
    form = MemberForm(request.POST, roles=grantable(person(request), team))
    if form.is_valid():
        role = Role(form.cleaned_data["role"])
        try:
            binding = actions.add_member(
                by=actor(request), team=team, who=form.cleaned_data["who"], role=role
            )
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(
                request, f"{binding.user or binding.group} is {role.label.lower()} of {team.name}."
            )
            return redirect("teams:detail", team.slug)
    return render_team(request, team, member_form=form)


@require_POST
def remove(request: HttpRequest, slug: str, binding_id: uuid.UUID) -> HttpResponse:
    """Take a role away; say why not where it is the last organisation admin's."""
    team = team_for(request, slug)
    binding = Binding.objects.filter(pk=binding_id, team=team).first()
    if binding is None:
        raise NotVisible(f"{team.name} has no member {str(binding_id)!r} of its own.")
    try:
        actions.remove_member(by=actor(request), binding=binding)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
    return redirect("teams:detail", team.slug)
