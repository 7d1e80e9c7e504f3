"""The page of API tokens: list, create (the secret is shown once), revoke."""

import uuid
from typing import TYPE_CHECKING, cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from chamber.errors import Refusal
from chamber.forms import Form
from chamber.http import page
from chamber.models import ApiToken, Scope
from chamber.tokens import DEFAULT_DAYS, LONGEST_DAYS, create_token
from chamber.tokens import revoke_token as revoke
from teams.forms import show_refusal

if TYPE_CHECKING:
    from chamber.models import User


class TokenForm(Form):
    """A token to be made."""

    name = forms.CharField(max_length=80, help_text="Where you will use it, e.g. laptop or nightly job.")
    scope = forms.ChoiceField(
        choices=[
            (Scope.READ, "Read: see what you may see"),
            (Scope.SUBMIT, "Submit: also run workloads"),
            (Scope.MANAGE, "Manage: all that you may do"),
        ],
        initial=Scope.SUBMIT,
    )
    expires_in_days = forms.IntegerField(
        label="Valid for (days)", min_value=1, max_value=LONGEST_DAYS, initial=DEFAULT_DAYS
    )


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's own tokens; a POST makes one and shows its secret on the page it answers, nowhere else."""
    user = cast("User", request.user)
    form = TokenForm(request.POST or None)
    made, secret, status = None, "", 200
    if request.method == "POST":
        if form.is_valid():
            try:
                made, secret = create_token(
                    user=user,
                    name=form.cleaned_data["name"],
                    scope=Scope(form.cleaned_data["scope"]),
                    days=form.cleaned_data["expires_in_days"],
                )
            except Refusal as refusal:
                show_refusal(form, refusal)
            else:
                form = TokenForm()
        status = 422 if form.errors else 200
    own = ApiToken.objects.filter(user=user, revoked_at=None).order_by("-created_at", "-id")
    context = {"form": form, "tokens": own, "made": made, "secret": secret, "now": timezone.now()}
    response = page(request, "chamber/tokens.html", context, status=status)
    if secret:
        response["Cache-Control"] = "no-store"
    return response


@require_POST
def revoke_token(request: HttpRequest, token_id: uuid.UUID) -> HttpResponse:
    """Revoke one of one's own tokens and go back to the list."""
    token = revoke(user=cast("User", request.user), token_id=token_id)
    messages.success(request, f"The token {token.name} is revoked.")
    return redirect("chamber:tokens")
