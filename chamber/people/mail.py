"""Mailing a link: the way it goes where there is a mail server."""

from dataclasses import dataclass
from typing import Any

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from rest_framework.exceptions import Throttled

from chamber import mailing
from chamber.authentication import bound_tries, too_many
from chamber.models import LinkPurpose, User
from chamber.oidc.providers import providers
from chamber.people.actions import Made, lasts, may_be_shown, note_mail
from chamber.people.reading import is_invited
from teams.actors import Actor
from teams.models import Role, Team

HOUR = 3600
LINKS_PER_HOUR = 500
"""That one person has mailed: a whole class at once, no flood."""
CONFIRMATIONS_PER_HOUR = 10
MAILS_TO_ADDRESS_PER_HOUR = 5
"""From all together."""


def address_of(made: Made, request: HttpRequest) -> str:
    """Return the address that a link's reader opens."""
    return mailing.public(request.build_absolute_uri(reverse("chamber:link", args=[made.secret])))


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where a link went: to an address, or to be shown, this once; or nowhere, where it could not be mailed."""

    mailed_to: str = ""
    url: str = ""


def deliver(made: Made, request: HttpRequest, *, by: Actor, tries: bool = True) -> Delivered:
    """Mail a link to whom it is for, or return its address to be shown; note which. Outside of any transaction.

    Without `tries` the server is known to take none at the moment, and is not asked.

    Where the server refuses it, an organisation admin is shown it and hands it over; nobody else is: they would get
    links to read by addresses that no mail can be written to.
    """
    link, url = made.link, address_of(made, request)
    if not (settings.MAIL and link.mailed_to):
        return Delivered(url=url)
    purpose = LinkPurpose(link.purpose)
    context = {"server": mailing.server(request), "user": link.user, "url": url, "lasts": lasts(purpose)}
    if purpose is LinkPurpose.INVITATION:
        context |= _invitation(link.user)
    message = get_adapter(request).render_mail(f"account/email/{purpose}", link.mailed_to, context)
    sent = tries and mailing.send(message)
    note_mail(made, by=by, sent=sent)
    if sent:
        return Delivered(mailed_to=link.mailed_to)
    return Delivered(url=url if may_be_shown(by) else "")


def _invitation(user: User) -> dict[str, Any]:
    """Return what an invitation says of who invited, to which organisation, and to which roles."""
    roles = user.bindings.select_related("team").order_by("team__path")
    return {
        "providers": " or ".join(each.name for each in providers()),
        "inviter": user.invited_by,
        "organisation": Team.objects.filter(depth=0).first(),
        "roles": [f"{Role(each.role).label.lower()} of {each.team.name}" for each in roles],
    }


def not_mailed(made: Made) -> str:
    """Return what is said to whoever made a link that could not be mailed and is not shown to them."""
    return (
        f"The link could not be mailed to {made.link.mailed_to}. Try again later, or ask an organisation admin to hand "
        "one over."
    )


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
        bound_mails_to(request, to)
    except Throttled as error:
        raise too_many(error) from error


def bound_mails_to(request: HttpRequest, to: str) -> None:
    """Count a mail to an address; raise `Throttled` where all together had enough for it in an hour."""
    bound_tries(request, "mails-to", most=MAILS_TO_ADDRESS_PER_HOUR, of=to.strip(), seconds=HOUR)
