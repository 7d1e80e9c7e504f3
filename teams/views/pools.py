"""Making a pool, and editing its policy."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from chamber.errors import NotAllowed, Refusal, no_such
from chamber.http import confirmed_deletion, page
from teams import actions
from teams.forms import PoolForm, show_refusal
from teams.models import Pool
from teams.permissions import Permission, may_anywhere
from teams.views.requests import actor, person, pool_for


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Make a pool."""
    others = Pool.objects.count()
    clusters = [] if others else actions.cluster_names()
    return _form(request, Pool(order=others, clusters=clusters), is_new=True)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Change a pool's names, nodes and policy."""
    pool = pool_for(request, slug)
    if pool is None:
        raise no_such("pool", slug)
    return _form(request, pool, is_new=False)


@require_POST
def delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete a pool, where its short name was typed; say why not where something hangs on it."""
    pool = pool_for(request, slug)
    if pool is None:
        raise no_such("pool", slug)
    deleted = confirmed_deletion(
        request, slug, lambda: actions.delete_pool(by=actor(request), pool=pool), what=f"The pool {pool.name}"
    )
    return redirect("agentlink:pools") if deleted else redirect("agentlink:pool", slug)


def _form(request: HttpRequest, pool: Pool, *, is_new: bool) -> HttpResponse:
    form = pool_form(request, pool)
    if request.method == "POST" and form.is_valid():
        try:
            saved = _save(request, pool, form, is_new=is_new)
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, f"{saved.name} is saved; the next plan works by it.")
            return redirect("agentlink:pool", saved.slug)
    context = {"form": form, "pool": None if is_new else pool}
    return page(request, "teams/pool_form.html", context, status=422 if form.errors else 200)


def pool_form(request: HttpRequest, pool: Pool) -> PoolForm:
    """Return the form of a pool for who may change it, filled with what was posted."""
    if not may_anywhere(person(request), Permission.MANAGE_POOLS):
        raise NotAllowed("Your role does not let you change pools.")
    return PoolForm(request.POST if request.method == "POST" else None, pool=pool)


def _save(request: HttpRequest, pool: Pool, form: PoolForm, *, is_new: bool) -> Pool:
    if is_new:
        return actions.create_pool(by=actor(request), values=form.changes())
    version = form.cleaned_data["version"] or 0
    return actions.edit_pool(by=actor(request), pool=pool, version=version, changes=form.changes())
