"""One team: its numbers, members, rules and trail; renaming, moving, archiving it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from chamber.errors import Refusal, no_such
from chamber.http import Watched, confirmed_deletion, page, posted_from
from teams import actions
from teams.class_forms import NarrowingForm
from teams.forms import IdentityForm, MemberForm, MoveForm, RulesForm, show_refusal
from teams.job_classes import ClassDefaults, OrganisationClasses
from teams.members import members_of
from teams.models import AuditEvent, ClassNarrowing, Team, TeamPolicy, TeamRules
from teams.permissions import Permission, grantable, may, paths_where, require, roles_on
from teams.picture import TreePicture
from teams.rows import Powers
from teams.rules import effective_by, limits_for, policies_of
from teams.tree import TeamTree
from teams.views.requests import actor, choices_below, person, team_for

RECENT = 12


@require_safe
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a team."""
    watched = Watched.now("teams", "pools")
    return render_team(request, team_for(request, slug), watched)


@dataclass(frozen=True, slots=True)
class TeamClassRow:
    """What holds of a job class in a team, what the team says itself, and the form where that may be changed."""

    found: ClassDefaults
    own: ClassNarrowing | None
    form: NarrowingForm | None


def render_team(
    request: HttpRequest,
    team: Team,
    watched: Watched | None = None,
    narrow_form: list[TeamClassRow] | None = None,
    **forms: Any,
) -> HttpResponse:
    """Answer the team's page; `forms` replace the empty ones, with 422 where one has errors."""
    user = person(request)
    powers, may_audit = Powers.of(user), may(user, Permission.VIEW_AUDIT, team)
    may_manage = powers.may_manage(team) and not team.is_archived
    may_narrow = may(user, Permission.NARROW_CLASSES, team) and bool(team.parent_id) and not team.is_archived
    policies, picture = policies_of(team), TreePicture.load()
    rules = effective_by(team, policies)
    trail = AuditEvent.objects.visible_to(user).about(team) if may_audit else AuditEvent.objects.none()
    above = Team.objects.visible_to(user).filter(pk__in=team.ancestor_ids()[:-1]).order_by("depth")
    ancestors = {other.pk: other for other in above}
    context = {
        "organisation": picture.nodes.get(team.ancestor_ids()[0]),  # which the frame would ask for
        "team": team,
        "ancestors": ancestors.values(),
        "children": team.children.order_by("name"),
        "shares": _shares(team, picture, ancestors),
        "members": _members(request, team),
        "services": _services(team, sees=may_audit or may(user, Permission.MANAGE_MEMBERS, team)),
        "rules": rules,
        "mine": limits_for(roles_on(user, team), rules),
        "may_narrow": may_narrow,
        "classes": narrow_form or _classes(team, may_narrow=may_narrow),
        "trail": trail[:RECENT],
        "may_audit": may_audit,
        "may_edit": (powers.may_limit(team) or powers.may_split(team)) and not team.is_archived,
        "may_delete": powers.may_limit(team) and bool(team.parent_id),
        "may_restore": powers.may_limit(team) and team.is_archived,
        **_forms(request, team, policies.get(team.pk), TeamTree(picture.nodes), may_manage=may_manage),
        **forms,
    }
    wrong = bool(narrow_form) or any(form.errors for form in forms.values())
    return page(
        request,
        "teams/detail.html",
        context,
        fragment="teams/_team.html",
        status=422 if wrong else 200,
        watched=watched or Watched.now("teams", "pools"),
    )


def _forms(
    request: HttpRequest, team: Team, policy: TeamPolicy | None, tree: TeamTree, *, may_manage: bool
) -> dict[str, Any]:
    """Return the empty forms of what the user may do here; None for what they may not."""
    user = person(request)
    roles = grantable(user, team) if may(user, Permission.MANAGE_MEMBERS, team) else []
    may_move = bool(team.parent_id) and Powers.of(user).may_limit(team) and not team.is_archived
    return {
        "identity_form": IdentityForm(team=team) if may_manage else None,
        "move_form": MoveForm(team=team, parents=_new_parents(request, team, tree)) if may_move else None,
        "member_form": MemberForm(roles=roles) if roles and not team.is_archived else None,
        "rules_form": _rules_form(policy) if may_manage else None,
    }


def _classes(team: Team, *, may_narrow: bool, posted: str = "", data: Any = None) -> list[TeamClassRow]:
    """Return a row for each class that is taken (3 queries); `data` is what was posted for the class `posted`."""
    known = OrganisationClasses.read([team])
    rows = []
    for each in known.taken:
        above, found = known.above(team, each.slug), known.of(team, each.slug)
        own = known.narrowings.get(team.pk, {}).get(each.slug)
        if above is None or found is None:
            continue
        sent = data if each.slug == posted else None
        form = NarrowingForm(sent, above=above, own=own, known=known) if may_narrow else None
        rows.append(TeamClassRow(found, own, form))
    return rows


def _rules_form(policy: TeamPolicy | None, data: Any = None) -> RulesForm:
    rules, version = (policy.typed, policy.version) if policy else (TeamRules(), 0)
    return RulesForm(data, rules=rules, version=version)


def _shares(team: Team, picture: TreePicture, ancestors: Mapping[UUID, Team]) -> list[dict[str, Any]]:
    """Return what the team may have of each pool; of the teams above, those in `ancestors` are named."""
    rows = []
    for pool in picture.pools.values():
        found = picture.entitled[pool.pk].get(team.pk)
        by = found.bound_by if found else None
        name = str(ancestors.get(by, "a team above")) if by and by != team.pk else ""
        quota = picture.quota(pool.pk, team.pk)
        rows.append({"pool": pool, "quota": quota, "entitled": found, "bound_by": name})
    return rows


def _members(request: HttpRequest, team: Team) -> list[dict[str, Any]]:
    roles = set(grantable(person(request), team))
    return [
        {
            "binding": binding,
            "inherited": binding.team_id != team.pk,
            "removable": binding.team_id == team.pk and binding.role in roles,
        }
        for binding in members_of(team, person(request))
    ]


def _services(team: Team, *, sees: bool) -> Any:
    """Return the service accounts that the team owns, for whoever manages them or reads the trail; None for others.

    Reached by the name of the relation: the room that owns them lies above this one.
    """
    return team.service_accounts.select_related("user").order_by("name") if sees else None


def _new_parents(request: HttpRequest, team: Team, tree: TeamTree) -> list[tuple[str, str]]:
    """Return where the team may go: not below itself, nor where it is."""
    paths = paths_where(person(request), Permission.MANAGE_TEAM)
    return [
        (node.slug, name)
        for node, name in choices_below(paths, tree)
        if node.id != team.parent_id and not node.path.startswith(team.path)
    ]


@posted_from("teams:detail", "slug")
def rename(request: HttpRequest, slug: str) -> HttpResponse:
    """Change the team's names."""
    team = team_for(request, slug)
    form = IdentityForm(request.POST, team=team)
    if form.is_valid():
        values = form.cleaned_data
        try:
            team = actions.edit_team(
                by=actor(request),
                team=team,
                version=values["version"],
                changes={"name": values["name"], "slug": values["slug"]},
            )
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, "The name is saved.")
            return redirect("teams:detail", team.slug)
    return render_team(request, team, identity_form=form)


@posted_from("teams:detail", "slug")
def move(request: HttpRequest, slug: str) -> HttpResponse:
    """Put the team below another."""
    team = team_for(request, slug)
    require(actor(request), Permission.MANAGE_TEAM, team)
    form = MoveForm(request.POST, team=team, parents=_new_parents(request, team, TeamTree.load()))
    if form.is_valid():
        parent = team_for(request, form.cleaned_data["parent"])
        version = form.cleaned_data["version"]
        try:
            actions.move_team(by=actor(request), team=team, parent=parent, version=version)
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, f"{team.name} is below {parent.name} now, and counts there.")
            return redirect("teams:detail", team.slug)
    return render_team(request, team, move_form=form)


@require_POST
def archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Archive the team with all below it; say why not where something runs."""
    team = team_for(request, slug)
    try:
        actions.archive_team(by=actor(request), team=team)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
    else:
        messages.success(request, f"{team.name} is archived.")
    return redirect("teams:detail", team.slug)


@require_POST
def delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete the team, where its short name was typed; say why not where something hangs on it."""
    team = team_for(request, slug)
    deleted = confirmed_deletion(
        request, slug, lambda: actions.delete_team(by=actor(request), team=team), what=f"The team {team.name}"
    )
    if not deleted:
        return redirect("teams:detail", team.slug)
    return redirect("teams:detail", team.parent.slug) if team.parent else redirect("teams:tree")


@require_POST
def unarchive(request: HttpRequest, slug: str) -> HttpResponse:
    """Restore an archived team."""
    team = team_for(request, slug)
    try:
        actions.unarchive_team(by=actor(request), team=team)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
    else:
        messages.success(request, f"{team.name} is back.")
    return redirect("teams:detail", team.slug)


@posted_from("teams:detail", "slug")
def rules(request: HttpRequest, slug: str) -> HttpResponse:
    """Set what the team's members may ask for."""
    team = team_for(request, slug)
    form = _rules_form(TeamPolicy.objects.filter(team=team).first(), request.POST)
    if form.is_valid():
        try:
            actions.set_rules(
                by=actor(request), team=team, version=form.cleaned_data["version"], rules=form.rules()
            )
        except Refusal as refusal:
            show_refusal(form, refusal, RulesForm.NAMES)
        else:
            messages.success(request, "The rules are saved; they hold for what is submitted from now on.")
            return redirect("teams:detail", team.slug)
    return render_team(request, team, rules_form=form)


@posted_from("teams:detail", "slug")
def narrow(request: HttpRequest, slug: str, class_slug: str) -> HttpResponse:
    """Set what the team says of a job class, for itself and those below."""
    team = team_for(request, slug)
    require(actor(request), Permission.NARROW_CLASSES, team)
    rows = _classes(team, may_narrow=True, posted=class_slug, data=request.POST)
    form = next((row.form for row in rows if row.found.slug == class_slug), None)
    if form is None:
        raise no_such("job class", class_slug, known=[row.found.slug for row in rows])
    if form.is_valid():
        version = form.cleaned_data["version"]
        try:
            actions.narrow_class(
                by=actor(request), team=team, slug=class_slug, version=version, values=form.values()
            )
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, "It is saved; it holds for what is submitted from now on.")
            return redirect("teams:detail", team.slug)
    return render_team(request, team, narrow_form=rows)
