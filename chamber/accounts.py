"""How allauth signs people in here: no open sign-up, Chamber's bound on tries, its words, and its audit trail."""

from typing import TYPE_CHECKING, Any, ClassVar, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.models import Authenticator
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from chamber import devices, sessions
from chamber import sign_in_trail as trail
from chamber.authentication import sign_in
from chamber.errors import Conflict, NotAllowed
from chamber.factors.reading import KINDS, NAMES
from chamber.mailing import public, send_quietly, server
from chamber.models import User
from chamber.names import forget_pending
from chamber.oidc import sessions as provided
from chamber.people import notices
from chamber.people.mail import tell_old_address
from chamber.sessions import ENDED, HELD_LINK
from chamber.tokens import revoke_all
from teams.actors import Via
from teams.picture import lock_tree

if TYPE_CHECKING:
    from allauth.account.models import EmailAddress

MISMATCH = "This name or e-mail address and this password do not go together."
DISABLED = "This account is disabled: ask an organisation admin."
STAGES = {"allauth.mfa.stages.AuthenticateStage": "chamber.factors.stages.SecondFactor"}
BEGUN = "signing-in"
"""Of a session in which somebody signs in by several steps: the hash that it would have had without the second."""


class Accounts(DefaultAccountAdapter):
    """What allauth asks of a project."""

    error_messages: ClassVar[dict[str, Any]] = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": MISMATCH,
        "email_password_mismatch": MISMATCH,
        "enter_current_password": "This is not your password.",
        "email_taken": "This e-mail address belongs to another account.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's signature
        """Return that nobody makes an account by themselves."""
        return False

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """Return whose password this is; raise `Throttled` after too many tries."""
        name = credentials.get("username") or credentials.get("email") or ""
        return sign_in(request, name, credentials["password"], via=Via.PAGE)

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        """Refuse who is disabled; of who has a second step to go, remember by which password they came so far."""
        if not user.is_active:
            raise NotAllowed(DISABLED)
        request.session[BEGUN] = user.get_session_auth_hash()
        provided.keep(request, (kwargs.get("signal_kwargs") or {}).get("sociallogin"))
        return super().pre_login(request, user, **kwargs)  # type: ignore[no-any-return]  # allauth's

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Begin a session, and note it; a link that somebody opened before in this browser is not theirs.

        What would have ended the session, had it begun with the first step, ends the signing in.
        """
        begun = str(request.session.pop(BEGUN, ""))
        if not user.is_active or not constant_time_compare(begun, user.get_session_auth_hash()):
            raise Conflict(ENDED, code="signed-out")
        is_first = user.last_login is None
        super().login(request, user)
        request.session.pop(HELD_LINK, None)
        by = provided.provider_id(request)
        person = cast("User", user)
        trail.signed_in(person, Via.PAGE, factor=_factor(request, user), provider=by)
        if not is_first and not devices.knows(request, person):
            notices.new_browser(request, person)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse:
        """Go on to where somebody wanted to."""
        response: HttpResponse = super().post_login(request, user, **kwargs)
        provided.begun(request)  # allauth has noted the session meanwhile
        devices.remember(request, response, cast("User", user))
        return response

    def get_login_stages(self) -> list[str]:
        """Return the steps of signing in: who comes by a provider that asks for a factor is not asked for another."""
        return [STAGES.get(name, name) for name in super().get_login_stages()]

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        """Store a new password, and note that; it ends the person's other sessions, and forgotten, their tokens.

        Of two who do it at once one is refused.
        """
        person, page = cast("User", user), self.request.resolver_match
        forgotten = page is None or page.url_name != "account_change_password"
        hashed = make_password(password)  # before the row is locked: it takes a while
        with transaction.atomic():
            sessions.lock_signed_in(person)
            person.password = hashed
            person.save(update_fields=["password"])
            person.end_links()
            forget_pending(person)
            trail.password_changed(person, tokens=revoke_all(person) if forgotten else None)

    def confirm_email(self, request: HttpRequest, email_address: "EmailAddress") -> bool:
        """Take an address that its owner has confirmed, and note that; return False where it is another account's."""
        with transaction.atomic():
            lock_tree()  # with which addresses are given
            rows = User.objects.select_for_update(no_key=True)  # with which it waits, see `forget_pending`
            user = email_address.user = rows.get(pk=email_address.user_id)
            others, old = User.objects.exclude(pk=user.pk), user.email
            if others.filter(email=email_address.email).exists() or not _awaits(email_address):
                return False
            confirmed = bool(super().confirm_email(request, email_address))
            if confirmed:
                user.end_links()
                trail.address_confirmed(user, email_address.email)
        if confirmed:
            tell_old_address(request, user, old)
        return confirmed

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Return where a mailed link for a new password leads."""
        return public(super().get_reset_password_from_key_url(key))

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        """Return where the link that confirms an address leads."""
        return public(super().get_email_confirmation_url(request, emailconfirmation))

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Write and send beside the request: how long it takes tells nobody who has an account."""
        told = {**context, "server": server(self.request), "email": email}
        told.pop("request", None)
        send_quietly(lambda: self.render_mail(template_prefix, email, told))

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing: the views say it in Chamber's words."""

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address, as trusted proxies tell it; none over a socket of the machine."""
        return str(request.META.get("REMOTE_ADDR") or "0.0.0.0")  # noqa: S104 - no address to listen on


def _factor(request: HttpRequest, user: AbstractBaseUser) -> str:
    """Return by which second factor somebody just signed in, in words; "" without one."""
    records = [each for each in get_authentication_records(request, user) if each.get("method") == "mfa"]
    return NAMES[KINDS[Authenticator.Type(records[-1]["type"])]].lower() if records else ""


def _awaits(address: "EmailAddress") -> bool:
    """Return whether an address still waits to be confirmed, by somebody who was not put out."""
    rows = type(address).objects.filter(pk=address.pk, verified=False, user__is_active=True)
    return bool(rows.exists())
