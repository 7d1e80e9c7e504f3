"""The page of API tokens: list, create (the secret is shown once), revoke."""

import uuid
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from chamber.errors import Refusal
from chamber.forms import Form
from chamber.http import page, too_soon
from chamber.models import ApiToken, Scope
from chamber.people import notices
from chamber.tokens import DEFAULT_DAYS, LONGEST_DAYS, create_token
from chamber.tokens import revoke_token as revoke
from teams.fields import LongSelect
from teams.forms import show_refusal
from teams.permissions import Permission, paths_where
from teams.views.requests import team_choices, team_for

if TYPE_CHECKING:
    from chamber.models import User


class TokenForm(Form):
    """A token to be made."""

    name = forms.CharField(max_length=80, help_text="Where you will use it, e.g. laptop or nightly job.")
    scope = forms.ChoiceField(
        choices=[
            (Scope.READ, "Read: see what you may see"),
            (Scope.SUBMIT, "Submit: also run workloads"),
            (Scope.MANAGE, "Manage: also members, and how teams share"),
            (Scope.ADMIN, "Admin: all that you may do"),
        ],
        initial=Scope.SUBMIT,
    )
    team = forms.ChoiceField(
        label="Team",
        required=False,
        widget=LongSelect,
        help_text="It then reaches only this team and the teams below it.",
    )
    expires_in_days = forms.IntegerField(
        label="Valid for (days)", min_value=1, max_value=LONGEST_DAYS, initial=DEFAULT_DAYS
    )

    def __init__(self, data: Any = None, *, user: "User") -> None:
        super().__init__(data)
        paths = paths_where(user, Permission.VIEW_TEAM)
        choices = [("", "All that you may see"), *team_choices(paths)]
        self.fields["team"].choices = choices  # type: ignore[attr-defined]  # a ChoiceField's


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's own tokens; a POST makes one and shows its secret on the page it answers, nowhere else."""
    user = cast("User", request.user)
    form = TokenForm(request.POST if request.method == "POST" else None, user=user)
    made, secret, status = None, "", 200
    wrong: Refusal | None = None
    if request.method == "POST":
        if form.is_valid():
            slug = form.cleaned_data["team"]
            try:
                made, secret = create_token(
                    user=user,
                    name=form.cleaned_data["name"],
                    scope=Scope(form.cleaned_data["scope"]),
                    days=form.cleaned_data["expires_in_days"],
                    team=team_for(request, slug) if slug else None,
                )
            except Refusal as refusal:
                wrong = refusal
                show_refusal(form, refusal)
            else:
                form = TokenForm(user=user)
                notices.token_made(request, made)
        status = 422 if form.errors else 200
    own = ApiToken.read().filter(user=user, revoked_at=None).order_by("-created_at", "-id")
    context = {"form": form, "tokens": own, "made": made, "secret": secret, "now": timezone.now()}
    response = page(request, "chamber/tokens.html", context, status=status)
    if secret:
        response["Cache-Control"] = "no-store"
    return too_soon(response, wrong) if wrong else response


@require_POST
def revoke_token(request: HttpRequest, token_id: uuid.UUID) -> HttpResponse:
    """Revoke one of one's own tokens and go back to the list."""
    token = revoke(user=cast("User", request.user), token_id=token_id)
    messages.success(request, f"The token {token.name} is revoked.")
    return redirect("chamber:tokens")
