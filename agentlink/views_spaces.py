"""Binding namespaces of a cluster to teams, from the cluster's page."""

from typing import TYPE_CHECKING, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from agentlink import spaces
from agentlink.forms import NamespaceForm
from agentlink.models import BoundNamespace, Cluster
from agentlink.views import cluster_page
from chamber.errors import Conflict, NotAllowed, Refusal, one_of
from chamber.http import posted_from
from teams.actors import Actor, Via
from teams.forms import show_refusal
from teams.models import Team
from teams.permissions import Permission, may_anywhere

if TYPE_CHECKING:
    from chamber.models import User


def _actor(request: HttpRequest) -> Actor:
    return Actor.person(cast("User", request.user), Via.PAGE)


@posted_from("agentlink:cluster", "name")
def bind(request: HttpRequest, name: str) -> HttpResponse:
    """Bind a namespace to a team."""
    cluster = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    if not may_anywhere(request.user, Permission.MANAGE_TEAM):
        raise NotAllowed("Namespaces are bound to a team by an admin of the team.")
    form = NamespaceForm(request.POST, teams=spaces.teams_to_bind(_actor(request)))
    if form.is_valid():
        try:
            bound = spaces.bind_namespace(
                by=_actor(request),
                cluster=cluster,
                team=Team.objects.get(slug=form.cleaned_data["team"]),
                namespace=form.cleaned_data["namespace"],
            )
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(
                request, f"The namespace {bound.namespace} of {cluster.name} is {bound.team.name}'s."
            )
            return redirect("agentlink:cluster", name)
    return cluster_page(request, cluster, namespace_form=form)


@require_POST
def unbind(request: HttpRequest, name: str, namespace: str) -> HttpResponse:
    """Unbind a namespace."""
    cluster = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    rows = BoundNamespace.objects.visible_to(request.user).select_related("team", "cluster")
    bound = one_of(rows, "namespace", cluster=cluster, namespace=namespace)
    try:
        spaces.unbind_namespace(by=_actor(request), bound=bound)
    except Conflict as conflict:
        messages.warning(request, conflict.message)
    else:
        messages.success(
            request, f"The namespace {namespace} is bound to no team any more; it stays as it is."
        )
    return redirect("agentlink:cluster", name)
