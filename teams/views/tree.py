"""The tree of teams: its table in one pool, a row edited in place, new teams, the organisation itself."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from chamber.errors import NotAllowed, NotVisible, Refusal
from chamber.http import Watched, page, wants_fragment
from teams import actions
from teams.capacity import capacity_milli, oversubscribed
from teams.forms import OrganisationForm, RowForm, TeamForm, show_refusal
from teams.models import Pool, Team
from teams.permissions import Permission, may_anywhere, paths_where
from teams.picture import TreePicture
from teams.rows import TreeRow, row, table
from teams.views.requests import TreePlace, actor, person, team_choices, team_for

SAVED = "teams-saved"
"""The event on which the page asks for its figures again."""


@require_http_methods(["GET", "HEAD", "POST"])
def tree(request: HttpRequest) -> HttpResponse:
    """Show the teams with what each may have of a pool; without an organisation, how to set one up."""
    watched = Watched.now("teams", "pools")
    try:
        place = TreePlace.of(request)
    except NotVisible:
        if Team.objects.exists():
            raise
        return _set_up(request)
    user = person(request)
    shown = table(user, place.pool, under=place.under)
    if not shown.picture.nodes:
        return _set_up(request)
    context = {
        "figures": Watched.now("teams", "overview"),
        "table": shown,
        "place": place,
        "pools": Pool.objects.visible_to(user),
        "warning": _warning(request, place.pool, shown.picture),
        "may_create": may_anywhere(user, Permission.MANAGE_TEAM),
        "may_pools": may_anywhere(user, Permission.MANAGE_POOLS),
    }
    return page(request, "teams/tree.html", context, fragment="teams/_tree.html", watched=watched)


@require_safe
def figures(request: HttpRequest) -> HttpResponse:
    """Answer the part of the tree's page that loads who holds how much, anew each time it is fetched."""
    watched = Watched.now("teams", "overview")
    context = {"place": TreePlace.of(request), "figures": watched}
    return page(request, "teams/_figures.html", context, watched=watched)


@require_safe
def show_row(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer one row of the tree, as before its editing."""
    place = TreePlace.of(request)
    if not wants_fragment(request):
        return redirect(place.url)
    context = {"row": _row(request, place, slug), "place": place, "focus": True}
    return page(request, "teams/_row.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def edit_row(request: HttpRequest, slug: str) -> HttpResponse:
    """Edit a team's limits and its share of a pool, in its row or on a page of its own."""
    place = TreePlace.of(request)
    found, form = row_form(request, place, slug)
    if form.is_bound and form.is_valid() and _save(request, found.team, place.sharing, form):
        return _saved(request, place, slug)
    context = {"row": found, "form": form, "place": place}
    status = 422 if form.errors else 200
    return page(request, "teams/edit.html", context, fragment="teams/_row_edit.html", status=status)


def row_form(request: HttpRequest, place: TreePlace, slug: str) -> tuple[TreeRow, RowForm]:
    """Return a team's row and the form of what its reader may change of it, filled with what was posted.

    Raises `NotVisible` where there is no pool yet.
    """
    found, _ = _row(request, place, slug), place.sharing
    if not found.may_edit:
        raise NotAllowed(f"Your role does not let you change the limits of {found.team.name}.")
    data = request.POST if request.method == "POST" else None
    return found, RowForm(data, team=found.team, quota=found.quota, limits=found.may_limit)


def _saved(request: HttpRequest, place: TreePlace, slug: str) -> HttpResponse:
    found = _row(request, place, slug)
    if not wants_fragment(request):
        messages.success(request, f"{found.team.name} is saved; the next plan works by it.")
        return redirect(place.url)
    answer = page(request, "teams/_row.html", {"row": found, "place": place, "focus": True})
    answer["HX-Trigger-After-Settle"] = SAVED
    return answer


def _save(request: HttpRequest, team: Team, pool: Pool, form: RowForm) -> bool:
    """Save the row as one change; return False with the form's errors set where it is refused."""
    try:
        actions.set_many(by=actor(request), edits=[form.edit(team, pool)], action="team.edited")
    except Refusal as refusal:
        show_refusal(form, refusal, {f"{team.slug}.{pool.slug}.maximum": "pool_maximum"})
        return False
    return True


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Make a team below one that the user is an admin of."""
    parents = team_choices(paths_where(person(request), Permission.MANAGE_TEAM))
    if not parents:
        raise NotAllowed("Your role does not let you make teams.")
    data = request.POST if request.method == "POST" else None
    form = TeamForm(data, parents=parents, initial={"parent": request.GET.get("parent")})
    if data is not None and form.is_valid():
        values = dict(form.cleaned_data)
        try:
            parent = team_for(request, values.pop("parent"))
            team = actions.create_team(by=actor(request), parent=parent, **values)
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, f"{team.name} is made. Give it a reservation, and members.")
            return redirect("teams:detail", team.slug)
    return page(request, "teams/new.html", {"form": form}, status=422 if form.errors else 200)


def _set_up(request: HttpRequest) -> HttpResponse:
    """Show what to do without an organisation; a superuser names it here."""
    data = request.POST if request.method == "POST" else None
    form = OrganisationForm(data)
    if data is not None and form.is_valid():
        try:
            team = actions.create_organisation(by=actor(request), name=form.cleaned_data["name"])
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            return redirect("teams:detail", team.slug)
    context = {"form": form if person(request).is_superuser else None}
    return page(request, "teams/set_up.html", context, status=422 if form.errors else 200)


def _warning(request: HttpRequest, pool: Pool | None, picture: TreePicture) -> str | None:
    """Return what is promised of the pool beyond what it has, for those who can do something about it."""
    if pool is None or not may_anywhere(person(request), Permission.MANAGE_TEAM):
        return None
    return oversubscribed(picture, capacity_milli([pool])).get(pool.pk)


def _row(request: HttpRequest, place: TreePlace, slug: str) -> TreeRow:
    team = team_for(request, slug)
    found = row(person(request), team, place.pool, under=place.under)
    if found is None:
        raise NotVisible(f"{team.name} is not on this page.")
    return found
