"""Whose a user name or an e-mail address is, and signing in by either."""

from typing import Any

from allauth.account.models import EmailAddress
from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from chamber.models import User


def user_of_address(email: str) -> User | None:
    """Return whose account has this e-mail address, in any case; one that waits to be confirmed is nobody's yet."""
    email = _clean(email).lower()
    return User.objects.filter(email=email).first() if email else None


def users_named(login: str) -> list[User]:
    """Return whom a user name or e-mail address may mean, the likeliest first; of old names that differ in case alone,
    the one that is written so.
    """
    login = _clean(login)
    if not login:
        return []
    # PostgreSQL takes a dotless i for an i; whoever counts tries does not.
    rows = [
        user
        for user in User.objects.filter(username__iexact=login)
        if user.username.casefold() == login.casefold()
    ]
    found = [user for user in rows if user.username == login or len(rows) == 1]
    owner = user_of_address(login)
    return found if owner is None or owner in found else [*found, owner]


def forget_pending(user: User) -> None:
    """Make of no use the links that would confirm another address: whoever asked for one may be who is put out now."""
    EmailAddress.objects.filter(user=user, verified=False).delete()


def _clean(text: str) -> str:
    return text.strip().replace("\x00", "")


class NameOrAddress(ModelBackend):
    """Signs in by user name or e-mail address, and password."""

    def authenticate(
        self,
        request: HttpRequest | None,  # noqa: ARG002 - Django's signature
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,  # noqa: ARG002 - as above
    ) -> User | None:
        """Return whose password this is; a name that nobody has takes as long."""
        found = users_named(username or "")
        if not found:
            User().set_password(password)
        return next(
            (
                user
                for user in found
                if user.check_password(password or "") and self.user_can_authenticate(user)
            ),
            None,
        )
