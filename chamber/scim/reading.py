"""Whom identity providers keep here, and in which groups."""

from allauth.socialaccount.models import SocialAccount
from django.http import HttpRequest

from chamber.mailing import public
from chamber.models import ProvisionedGroup, ProvisionedPerson, User
from chamber.oidc.claims import Claims
from chamber.oidc.providers import Provider


def provisioned(provider: Provider, claims: Claims, user: User | None) -> ProvisionedPerson | None:
    """Return whom the provider keeps here of somebody who signs in by it; None where nobody.

    Until they did so once they are found by the provider's id of them, else by the user name that it told.
    """
    if not provider.provisions:
        return None
    rows = ProvisionedPerson.objects.select_related("user").filter(provider=provider.id, is_deleted=False)
    if user is not None:
        return rows.filter(user=user).first()
    linked = SocialAccount.objects.filter(provider=provider.id).values("user")
    rows = rows.exclude(user__in=linked)
    by_id = rows.filter(external_id=claims.subject).first() if claims.subject else None
    by_name = rows.filter(user_name__iexact=claims.username).first() if claims.username else None
    return by_id or by_name


def kept(user: User) -> list[ProvisionedPerson]:
    """Return what somebody is to the providers that keep them here."""
    return list(user.provisioned.filter(is_deleted=False).order_by("provider"))


def address_of(request: HttpRequest, provider: Provider) -> str:
    """Return where a provider keeps people here; "" where it does not."""
    return public(request.build_absolute_uri(f"/scim/{provider.id}/v2")) if provider.provisions else ""


def groups_told(provider: Provider, user: User) -> set[str] | None:
    """Return the groups in which a provider keeps somebody; None where it does not keep them here."""
    if not provider.provisions:
        return None
    rows = ProvisionedPerson.objects.filter(provider=provider.id, user=user, is_deleted=False)
    if not rows.exists():
        return None
    return set(ProvisionedGroup.objects.filter(people__in=rows).values_list("name", flat=True))
