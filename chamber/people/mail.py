"""Mailing a link: the way it goes where there is a mail server."""

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from rest_framework.exceptions import Throttled

from chamber import mailing
from chamber.authentication import bound_tries, too_many
from chamber.models import AccountLink, LinkPurpose, User
from chamber.people.actions import Made, lasts
from chamber.people.reading import is_invited

HOUR = 3600
LINKS_PER_HOUR = 500
"""That one person has mailed: a whole class at once, no flood."""
CONFIRMATIONS_PER_HOUR = 10
MAILS_TO_ADDRESS_PER_HOUR = 5
"""From all together."""


def address_of(made: Made, request: HttpRequest) -> str:
    """Return the address that a link's reader opens."""
    return mailing.public(request.build_absolute_uri(reverse("chamber:link", args=[made.secret])))


def deliver(made: Made, request: HttpRequest) -> str:
    """Mail a link to whom it is for; return its address where it was not mailed: then it is shown, this once.

    It is not where the server refuses it: whoever made it may as well hand it over. Outside of any transaction.
    """
    link, url = made.link, address_of(made, request)
    if not (settings.MAIL and link.mailed_to):
        return url
    purpose = LinkPurpose(link.purpose)
    context = {"server": mailing.server(request), "user": link.user, "url": url, "lasts": lasts(purpose)}
    message = get_adapter(request).render_mail(f"account/email/{purpose}", link.mailed_to, context)
    if mailing.send(message):
        return ""
    # Whoever uses it shows nothing of the address, and its maker has read it.
    AccountLink.objects.filter(pk=link.pk).update(mailed_to="")
    return url


def tell_old_address(request: HttpRequest, user: User, old: str) -> None:
    """Mail to the address of before that it is the account's no more, where another one took its place.

    Not of who is only invited: that address may have been mistyped. Outside of any transaction.
    """
    if not (settings.MAIL and old) or old == user.email or is_invited(user):
        return
    get_adapter(request).send_mail("account/email/address_changed", old, {"username": user.username})


def bound(request: HttpRequest, kind: str, *, by: User, to: str, most: int = LINKS_PER_HOUR) -> None:
    """Count a mail that somebody causes; refuse with 429 where they, or all for this address, had enough in an hour."""
    try:
        bound_tries(request, f"mails-{kind}", most=most, of=str(by.pk), seconds=HOUR)
        bound_tries(request, "mails-to", most=MAILS_TO_ADDRESS_PER_HOUR, of=to.strip(), seconds=HOUR)
    except Throttled as error:
        raise too_many(error) from error
