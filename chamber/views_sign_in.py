"""The sign-in page, with the same bound on tries as the API."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import Throttled

from chamber import live
from chamber.authentication import SIGN_IN_WINDOW_SECONDS, sign_in
from chamber.forms import Sentences
from chamber.fragments import forget_session


class SignInForm(Sentences, AuthenticationForm):
    """User name and password; refused without a look at the password after too many tries."""

    wait_seconds: int | None = None

    def clean(self) -> dict[str, Any]:
        """Find the user; a wrong pair and too many tries are errors of the whole form."""
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if username and password and self.request is not None:
            try:
                self.user_cache = sign_in(self.request, username, password)
            except Throttled as error:
                self.wait_seconds = getattr(error, "wait", SIGN_IN_WINDOW_SECONDS)
                raise ValidationError(str(error.detail)) from error
            if self.user_cache is None:
                raise self.get_invalid_login_error()
        return self.cleaned_data


class SignIn(LoginView):
    """Django's sign-in, answering 422 for a wrong pair and 429 with Retry-After after too many tries."""

    http_method_names = ["get", "head", "post", "options"]
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Show the form again with what is wrong."""
        response = super().form_invalid(form)
        wait = form.wait_seconds if isinstance(form, SignInForm) else None
        response.status_code = 422 if wait is None else 429
        if wait is not None:
            response["Retry-After"] = str(wait)
        return response


class SignOut(LogoutView):
    """Django's sign-out; the session's other open pages are closed, and get no part any more."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """End the session, then say so."""
        key = request.session.session_key
        response = super().post(request, *args, **kwargs)
        if key:
            forget_session(key)
            live.announce(live.session_topic(key))
            live.flush()  # no process may take the session for open once this is answered
        return response
