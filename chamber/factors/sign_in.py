"""The second step of signing in, and signing in by a passkey alone: allauth's views in Chamber's words."""

from typing import Any

from allauth.account.models import Login
from allauth.account.utils import get_next_redirect_url
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.webauthn.internal.flows import perform_passwordless_login
from allauth.mfa.webauthn.views import LoginWebAuthnView
from django.contrib.auth.decorators import login_not_required
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from rest_framework.exceptions import Throttled

from chamber.authentication import bound_tries, too_many
from chamber.factors import passkeys
from chamber.factors.forms import CodeForm, PasskeySignInForm, PasskeyStepForm
from chamber.factors.reading import FactorKind, factors_of


class _KnowsMethods:
    """A page that says which methods it takes before it looks at who asks."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Refuse other methods."""
        view: Any = self
        if str(request.method).lower() not in view.http_method_names:
            return view.http_method_not_allowed(request)  # type: ignore[no-any-return]  # Django's
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc,no-any-return]  # of a view


@method_decorator(login_not_required, name="dispatch")
class SecondStep(_KnowsMethods, AuthenticateView):
    """Asks who gave the right password for a second factor; 422 for a wrong one, 429 after too many tries."""

    http_method_names = ["get", "head", "post", "options"]
    form_class = CodeForm
    webauthn_form_class = PasskeyStepForm
    template_name = "account/factor.html"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Take the factor; or give up, and begin again as somebody else."""
        if "again" in request.POST:
            response: HttpResponse = self.stage.abort()
        else:
            response = super().post(request, *args, **kwargs)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002 - Django's signature
        """Say which kinds of factor the person has, and what the browser is asked for a passkey."""
        user = self.stage.login.user
        kinds = {each.kind for each in factors_of(user)}
        return {
            "form": self.auth_form,
            "passkey_form": self.webauthn_form,
            "has_codes": bool(kinds - {FactorKind.PASSKEY}),
            "asked": passkeys.for_using(user) if FactorKind.PASSKEY in kinds else None,
        }

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        """Show the step again with what is wrong."""
        return _refused(super().form_invalid(form), form)


@method_decorator(login_not_required, name="dispatch")
class PasskeySignIn(_KnowsMethods, LoginWebAuthnView):
    """Signs in by a passkey that does without the password; a GET tells a script what to ask the browser."""

    http_method_names = ["get", "head", "post", "options"]
    form_class = PasskeySignInForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Bound how often an address asks."""
        try:
            bound_tries(request, "passkey-asked")
        except Throttled as error:
            raise too_many(error) from error
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002 - Django's signature
        """Answer with the challenge; who comes here by hand is sent to the sign-in page."""
        if "application/json" not in request.headers.get("Accept", ""):
            return redirect("account_login")
        return HttpResponse(passkeys.for_using(None), content_type="application/json")

    def form_valid(self, form: BaseForm) -> HttpResponse:
        """Begin the session."""
        factor = form.cleaned_data["credential"]
        login = Login(user=factor.user, redirect_url=get_next_redirect_url(self.request))
        response: HttpResponse = perform_passwordless_login(self.request, factor, login)
        return response

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        """Say on a page of its own what is wrong, with the way back."""
        context = {"why": next(iter(form.errors.get("credential", [])), passkeys.WRONG)}
        return _refused(render(self.request, "account/not_let_in.html", context), form)


def _refused(response: HttpResponse, form: BaseForm) -> HttpResponse:
    wait = getattr(form, "wait_seconds", None)
    response.status_code = 422 if wait is None else 429
    if wait is not None:
        response["Retry-After"] = str(wait)
    return response
