"""Groups of people: a list of them, and one with its people."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from chamber.errors import Refusal
from chamber.http import page
from teams import actions
from teams.forms import GroupForm, GroupMemberForm, show_refusal
from teams.groups import group_for, groups_for, person_in
from teams.models import ProviderGroup
from teams.permissions import Permission, may_anywhere
from teams.views.requests import actor, person

MOST_LISTED = 500
"""People of a group that its page lists; the API lists all."""


@require_http_methods(["GET", "HEAD", "POST"])
def groups(request: HttpRequest) -> HttpResponse:
    """List the groups; a POST makes one."""
    shown = groups_for(person(request))
    form = GroupForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            made = actions.create_group(by=actor(request), name=form.cleaned_data["name"])
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, f"The group {made.name} is made.")
            return redirect("chamber:group", made.pk)
    context = {"groups": shown, "form": form, **_powers(request)}
    return page(request, "teams/groups.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def group(request: HttpRequest, group_id: int) -> HttpResponse:
    """Show a group with its roles and people; a POST puts somebody into it."""
    shown = group_for(person(request), group_id)
    form = GroupMemberForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            user = actions.add_to_group(by=actor(request), group=shown.group, who=form.cleaned_data["who"])
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, f"{user} is in the group {shown.group.name}.")
            return redirect("chamber:group", group_id)
    people = shown.group.user_set.order_by("username")
    context = {
        "shown": shown,
        "people": people[:MOST_LISTED],
        "more_people": max(0, shown.size - MOST_LISTED),
        "form": form,
        "by_provider": ProviderGroup.objects.filter(pk=group_id).first(),
        **_powers(request),
    }
    return page(request, "teams/group.html", context, status=422 if form.errors else 200)


@require_POST
def remove(request: HttpRequest, group_id: int, username: str) -> HttpResponse:
    """Take somebody out of a group; say why not where it is the last organisation admin."""
    shown = group_for(person(request), group_id)
    user = person_in(shown.group, username)
    try:
        actions.remove_from_group(by=actor(request), group=shown.group, user=user)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
    else:
        messages.success(request, f"{user} is not in the group {shown.group.name} any more.")
    return redirect("chamber:group", group_id)


@require_POST
def delete(request: HttpRequest, group_id: int) -> HttpResponse:
    """Delete a group; say why not where it has roles."""
    shown = group_for(person(request), group_id)
    try:
        actions.delete_group(by=actor(request), group=shown.group)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
        return redirect("chamber:group", group_id)
    messages.success(request, f"The group {shown.group.name} is deleted; its people stay.")
    return redirect("chamber:groups")


def _powers(request: HttpRequest) -> dict[str, Any]:
    return {"may_change": may_anywhere(person(request), Permission.MANAGE_GROUPS)}
