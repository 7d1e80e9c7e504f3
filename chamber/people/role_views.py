"""Giving and taking roles on a person's page; which, the table of permissions says, as on a team's page."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from chamber.errors import NotAllowed, NotVisible, Refusal
from chamber.http import posted_from
from chamber.people import reading
from chamber.people.forms import RoleForm
from chamber.people.views import person_page, role_form
from teams import actions
from teams.forms import show_refusal
from teams.models import Binding, Role
from teams.permissions import as_of_now
from teams.views.requests import actor, person, team_for


@posted_from("chamber:person", "username")
def add(request: HttpRequest, username: str) -> HttpResponse:
    """Give somebody a role on a team."""
    shown = reading.person_for(person(request), username)
    form = role_form(person(request), request.POST)
    if form is None:
        raise NotAllowed("Your role does not let you give roles.")
    if form.is_valid() and (given := _given(request, form, username)):
        messages.success(request, f"{username} is {given.get_role_display().lower()} of {given.team.name}.")
        return redirect("chamber:person", username)
    return person_page(request, shown, role_form=form)


@require_POST
def remove(request: HttpRequest, username: str, binding_id: uuid.UUID) -> HttpResponse:
    """Take a role of somebody's own away; say why not where it is the last organisation admin's."""
    shown = reading.person_for(person(request), username)
    binding = next((each for each in shown.roles if each.pk == binding_id and each.group is None), None)
    if binding is None:
        raise NotVisible(f"{username} has no role {str(binding_id)!r} of their own.")
    try:
        actions.remove_member(by=actor(request), binding=binding)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
        return redirect("chamber:person", username)
    label = binding.get_role_display().lower()
    messages.success(request, f"{username} is no longer {label} of {binding.team.name}.")
    # Whoever took the last role that they may see sees the person no more.
    reader = as_of_now(person(request))
    if reader is None or not reading.may_see_people(reader):
        return redirect("chamber:overview")
    still = reading.people_for(reader).filter(pk=shown.user.pk).exists()
    return redirect("chamber:person", username) if still else redirect("chamber:people")


def _given(request: HttpRequest, form: RoleForm, username: str) -> Binding | None:
    """Return the role that the form gives; None where it is refused."""
    try:
        return actions.add_member(
            by=actor(request),
            team=team_for(request, form.cleaned_data["team"]),
            who=username,
            role=Role(form.cleaned_data["role"]),
        )
    except Refusal as refusal:
        if refusal.status == 403:
            form.add_error("role", refusal.message)
        else:
            show_refusal(form, refusal)
    return None
