"""Telling somebody by mail that their second factors were changed: who did not do it learns of it."""

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import HttpRequest
from rest_framework.exceptions import Throttled

from chamber.models import User
from chamber.people.mail import bound_mails_to


def tell(request: HttpRequest, user: User, what: str) -> None:
    """Mail a sentence about what was changed, unless the address got many. Outside of any transaction."""
    if not (settings.MAIL and user.email):
        return
    try:
        bound_mails_to(request, user.email)
    except Throttled:
        return
    get_adapter(request).send_mail(
        "account/email/factors_changed", user.email, {"username": user.username, "what": what}
    )
