"""Pages of pools and clusters."""

from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agentlink import actions, bindings, data, installing, maps, removal, spaces
from agentlink.forms import ClusterForm, NamespaceForm
from agentlink.models import AgentToken, BackendKind, Cluster, Node
from chamber.errors import Refusal, one_of
from chamber.http import Watched, confirmed_deletion, page, posted_from
from chamber.words import count
from teams.actors import Actor, Via
from teams.forms import policy_in_words
from teams.models import Pool
from teams.permissions import Permission, may_anywhere
from workloads import known

if TYPE_CHECKING:
    from chamber.models import User

MOST_NODES_DRAWN = 100
"""More are counted, not drawn; the API lists them all."""
MOST_NODES_LISTED = 1000


def _actor(request: HttpRequest) -> Actor:
    return Actor.person(cast("User", request.user), Via.PAGE)


@require_safe
def pools(request: HttpRequest) -> HttpResponse:
    """All pools in the organisation's order, and the clusters their nodes are in."""
    watched = Watched.now("pools", "silence")
    rows = list(Pool.objects.visible_to(request.user))
    figures = maps.pool_figures(rows)
    context = {
        "pools": [(pool, figures.get(pool.pk, maps.MapFigures())) for pool in rows],
        "clusters": _clusters(request),
        "stray": Node.objects.visible_to(request.user)
        .present()
        .filter(pool__isnull=True, refused_pool__isnull=True)
        .count(),
        "unbound": [text for texts in bindings.refused().values() for text in texts],
        "may_operate": may_anywhere(request.user, Permission.OPERATE_CLUSTERS),
        "may_manage_pools": may_anywhere(request.user, Permission.MANAGE_POOLS),
    }
    return page(request, "agentlink/pools.html", context, fragment="agentlink/_pools.html", watched=watched)


@require_safe
def pool(request: HttpRequest, slug: str) -> HttpResponse:
    """One pool: its figures, its policy, and a map of its nodes."""
    watched = Watched.now("pools")
    found = one_of(Pool.objects.visible_to(request.user), "pool", slug=slug)
    nodes = Node.objects.visible_to(request.user).present().filter(pool=found)
    figures = maps.pool_figures([found]).get(found.pk, maps.MapFigures())
    context = {
        "pool": found,
        "rules": found.rules,
        "per_gpu": known.per_gpu(found),
        "words": policy_in_words(found.rules),
        "figures": figures,
        "nodes": maps.node_cells(nodes[:MOST_NODES_DRAWN], request.user),
        "more_nodes": max(0, figures.nodes - MOST_NODES_DRAWN),
        "may_manage_pools": may_anywhere(request.user, Permission.MANAGE_POOLS),
        "may_operate": may_anywhere(request.user, Permission.OPERATE_CLUSTERS),
        # A callable: only the whole page, not its live part, asks for them.
        "drainable": lambda: nodes.values_list("cluster__name", "name")[:MOST_NODES_LISTED],
    }
    return page(request, "agentlink/pool.html", context, fragment="agentlink/_pool.html", watched=watched)


def _clusters(request: HttpRequest) -> Any:
    return maps.with_counts(Cluster.objects.visible_to(request.user)).order_by("name")


@require_http_methods(["GET", "POST"])
def connect(request: HttpRequest) -> HttpResponse:
    """Connect a cluster: a POST makes it and shows the command with its token, once."""
    actions.require_operator(_actor(request))
    form = ClusterForm(
        request.POST or None, pools=list(Pool.objects.all()), is_first=not Cluster.objects.exists()
    )
    if request.method == "POST" and form.is_valid():
        try:
            values = form.cleaned_data
            made = actions.create_cluster(
                by=_actor(request),
                name=values["name"],
                backend=BackendKind(values["backend"]),
                pools=form.chosen_pools(),
            )
        except Refusal as refusal:
            if not refusal.fields:
                raise
            for field, sentence in refusal.fields.items():
                form.add_error(field, sentence)
        else:
            return cluster_page(request, made.cluster, secret=made.secret)
    return page(request, "agentlink/connect.html", {"form": form}, status=422 if form.errors else 200)


@require_safe
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """One cluster: its agent, its tokens, its nodes."""
    watched = Watched.now("pools", "silence")
    found = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    return cluster_page(request, found, watched)


def cluster_page(
    request: HttpRequest,
    found: Cluster,
    watched: Watched | None = None,
    *,
    secret: str = "",
    namespace_form: NamespaceForm | None = None,
) -> HttpResponse:
    """Show a cluster, with a token that was just made, or a form that was filled in wrongly."""
    watched = watched or Watched.now("pools", "silence")
    nodes = Node.objects.visible_to(request.user).present().filter(cluster=found)
    stray = Q(pool__isnull=True, refused_pool__isnull=True)
    counted = nodes.aggregate(all=Count("pk"), stray=Count("pk", filter=stray))
    now = timezone.now()
    teams = spaces.teams_to_bind(_actor(request))
    cells = maps.node_cells(nodes[:MOST_NODES_DRAWN], request.user)
    context = {
        "cluster": found,
        "namespaces": spaces.shown(found, request.user),
        "data": data.in_cluster(found, request.user),
        "bindable": frozenset(slug for slug, _ in teams),
        "namespace_form": namespace_form or (NamespaceForm(teams=teams) if teams else None),
        "secret": secret,
        "commands": installing.commands(found, server=request.build_absolute_uri("/").rstrip("/")),
        "loopback": found.backend == BackendKind.NATIVE and installing.is_loopback(request.get_host()),
        "tokens": [(token, token.is_valid(now)) for token in found.tokens.order_by("-created_at")],
        "nodes": cells,
        "has_slices": any(device.cut for node in cells for device in node.devices),
        "more_nodes": max(0, counted["all"] - MOST_NODES_DRAWN),
        "stray": counted["stray"],
        "unbound": bindings.refused(found.pk).get(found.pk, []),
        "pools": [(pool, found.name in pool.clusters) for pool in Pool.objects.visible_to(request.user)],
        "node_problems": nodes.exclude(problem="")[:MOST_NODES_DRAWN],
        "may_operate": may_anywhere(request.user, Permission.OPERATE_CLUSTERS),
    }
    return page(
        request,
        "agentlink/cluster.html",
        context,
        fragment="agentlink/_cluster.html",
        watched=watched,
        status=422 if namespace_form is not None else 200,
    )


@require_POST
def bind_pool(request: HttpRequest, name: str, slug: str) -> HttpResponse:
    """Let a cluster serve a pool, or no longer."""
    found = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    pool = one_of(Pool.objects.visible_to(request.user), "pool", slug=slug)
    if "unbind" in request.POST:
        actions.unbind_pool(by=_actor(request), cluster=found, pool=pool)
        messages.success(request, f"{name} no longer serves {pool.name}; what runs there goes on.")
    else:
        actions.bind_pool(by=_actor(request), cluster=found, pool=pool)
        messages.success(request, f"{name} may serve {pool.name}.")
    return redirect("agentlink:cluster", name)


@posted_from("agentlink:cluster", "name")
def add_token(request: HttpRequest, name: str) -> HttpResponse:
    """Make another token of a cluster's agent and show it, once."""
    found = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    made = actions.add_token(by=_actor(request), cluster=found)
    return cluster_page(request, found, secret=made.secret)


@require_POST
def revoke_token(request: HttpRequest, name: str, token_id: str) -> HttpResponse:
    """Revoke a token; its connection is closed within a second."""
    found = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    token = one_of(AgentToken.objects.filter(cluster=found), "token", pk=token_id)
    actions.revoke_token(by=_actor(request), token=token)
    messages.success(request, f"The token {token.prefix}… is revoked.")
    return redirect("agentlink:cluster", name)


@require_POST
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete a cluster, where its name was typed; say why not where something hangs on it."""
    found = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    deleted = confirmed_deletion(
        request,
        name,
        lambda: removal.delete_cluster(by=_actor(request), cluster=found),
        what=f"The cluster {name}",
    )
    return redirect("agentlink:pools") if deleted else redirect("agentlink:cluster", name)


@require_POST
def declare_lost(request: HttpRequest, name: str) -> HttpResponse:
    """Give up what runs in a silent cluster and requeue it elsewhere."""
    found = one_of(Cluster.objects.visible_to(request.user), "cluster", name=name)
    ended = actions.declare_lost(by=_actor(request), cluster=found)
    messages.success(
        request, f"{count(ended, 'attempt')} in {found.name} declared lost; what ran goes back to the queue."
    )
    return redirect("agentlink:cluster", name)
