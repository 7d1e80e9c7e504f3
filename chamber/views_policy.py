"""How people sign in, for the whole organisation: a page of Settings."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from chamber.errors import Refusal
from chamber.forms import Form
from chamber.http import page, posted_from
from chamber.oidc.protocol import callback_url
from chamber.oidc.providers import providers
from chamber.requirement import lacking
from chamber.scim.reading import address_of
from teams import actions
from teams.forms import show_refusal
from teams.models import Role, SignInPolicy
from teams.models.sign_in import LONGEST_GRACE_DAYS
from teams.permissions import Permission, may_anywhere, paths_where
from teams.provider_groups import mapping_of, mappings
from teams.sign_in import policy_for
from teams.views.requests import actor, person, team_choices, team_for


class SecondFactorForm(Form):
    """Whether everybody needs a second factor."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    required = forms.BooleanField(label="Everybody needs a second factor", required=False)
    grace_days = forms.IntegerField(
        label="Days of grace",
        min_value=0,
        max_value=LONGEST_GRACE_DAYS,
        help_text="From when it began to be required. Until then people are told; after it they can only set one up.",
    )


class GroupRoleForm(Form):
    """A role of the people of a provider's group."""

    provider = forms.ChoiceField(label="Identity provider")
    group = forms.CharField(label="Group", max_length=255, help_text="As the provider names it.")
    team = forms.ChoiceField(label="Team")
    role = forms.ChoiceField(label="Role", choices=Role.choices, initial=Role.RESEARCHER)

    def __init__(self, data: Any = None, *, teams: Iterable[tuple[str, str]]) -> None:
        super().__init__(data)
        self.fields["provider"].choices = [(each.id, each.name) for each in providers()]  # type: ignore[attr-defined]
        self.fields["team"].choices = list(teams)  # type: ignore[attr-defined]  # a ChoiceField's


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show what is asked of whoever signs in; a POST changes it."""
    policy_for(person(request))
    if request.method != "POST":
        return _page(request)
    actions.require_sign_in(actor(request))
    form = SecondFactorForm(request.POST)
    if form.is_valid():
        try:
            now = actions.require_second_factor(by=actor(request), **form.cleaned_data)
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(request, _told(now))
            return redirect("chamber:sign-in")
    return _page(request, form=form)


@posted_from("chamber:sign-in")
def add_group(request: HttpRequest) -> HttpResponse:
    """Give the people of a provider's group a role on a team, in place of the one that they had there by it."""
    policy_for(person(request))
    actions.require_groups(actor(request))
    form = GroupRoleForm(request.POST, teams=_teams(request))
    if form.is_valid():
        values = form.cleaned_data
        try:
            actions.set_provider_role(
                by=actor(request),
                provider=values["provider"],
                name=values["group"],
                team=team_for(request, values["team"]),
                role=Role(values["role"]),
            )
        except Refusal as refusal:
            show_refusal(form, refusal)
        else:
            messages.success(
                request, "The role is given: it holds from each person's next sign-in or sync on."
            )
            return redirect("chamber:sign-in")
    return _page(request, group_form=form)


@require_POST
def remove_group(request: HttpRequest, binding_id: UUID) -> HttpResponse:
    """Take away the role of a provider's group."""
    policy_for(person(request))
    actions.require_groups(actor(request))
    found = mapping_of(binding_id)
    try:
        actions.set_provider_role(
            by=actor(request), provider=found.provider, name=found.name, team=found.binding.team, role=None
        )
    except Refusal as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, f"{found.name} gives no role on {found.binding.team.name} any more.")
    return redirect("chamber:sign-in")


def _page(
    request: HttpRequest,
    *,
    form: SecondFactorForm | None = None,
    group_form: GroupRoleForm | None = None,
) -> HttpResponse:
    policy = policy_for(person(request))
    initial = {
        "version": policy.version,
        "required": policy.required_since is not None,
        "grace_days": policy.grace_days,
    }
    form = form or SecondFactorForm(initial=initial)
    group_form = group_form or GroupRoleForm(teams=_teams(request))
    context = {
        "policy": policy,
        "form": form,
        "group_form": group_form,
        "mappings": mappings(),
        "providers": [
            (each, callback_url(request, each.id), address_of(request, each)) for each in providers()
        ],
        "lacking": lacking().count(),
        "may_change": may_anywhere(person(request), Permission.MANAGE_PEOPLE),
    }
    wrong = form.errors or group_form.errors
    return page(request, "sign_in/policy.html", context, status=422 if wrong else 200)


def _teams(request: HttpRequest) -> list[tuple[str, str]]:
    return team_choices(paths_where(person(request), Permission.VIEW_TEAM))


def _told(policy: SignInPolicy) -> str:
    at = policy.required_from
    return (
        f"Second factors are required from {at:%Y-%m-%d %H:%M} UTC on."
        if at
        else "Second factors are not required."
    )
