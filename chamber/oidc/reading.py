"""By which identity providers somebody signs in."""

from allauth.socialaccount.models import SocialAccount

from chamber.models import User
from chamber.oidc.providers import Provider, by_id, providers


def providers_of(user: User) -> list[Provider]:
    """Return by which providers somebody signs in, as far as they are configured."""
    ids = SocialAccount.objects.filter(user=user).values_list("provider", flat=True)
    return list(by_id(ids).values())


def accounts_of(user: User) -> list[SocialAccount]:
    """Return what somebody is at providers, configured or not, with when they last signed in by each."""
    return list(SocialAccount.objects.filter(user=user).order_by("provider"))


def comes_by_providers_only(user: User) -> bool:
    """Return whether somebody has no password here: then nothing else lets them in beside their provider."""
    return not user.has_usable_password() and SocialAccount.objects.filter(user=user).exists()


def strong() -> list[str]:
    """Return the ids of the providers that ask for a second factor themselves."""
    return [each.id for each in providers() if each.second_factor]
