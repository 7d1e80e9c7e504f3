"""Whether identity providers answer as the settings say."""

from collections.abc import Iterator

from chamber.doctor.finding import DoctorFinding, Fact
from chamber.oidc.asking import ProviderFailed, discovery_of, keys_of
from chamber.oidc.providers import NAME, Provider, providers
from chamber.words import count
from teams.provider_groups import mappings


def answers() -> Iterator[DoctorFinding | Fact]:
    """Ask each provider what it says of itself, and for its keys."""
    for provider in providers():
        yield from _asked(provider)


def roles() -> Iterator[DoctorFinding]:
    """Look for roles that groups of providers give which are configured no more: nobody takes them away again."""
    unknown = sorted({each.provider for each in mappings() if not each.known})
    for name in unknown:
        yield DoctorFinding(
            f"Groups of the identity provider {name!r} give roles, but it is not configured: who has one keeps it.",
            f"Name it in {NAME} again, or take the roles away on the page Sign-in.",
        )


def _asked(provider: Provider) -> Iterator[DoctorFinding | Fact]:
    try:
        found = discovery_of(provider, fresh=True)
        keys = keys_of(provider, fresh=True)
    except ProviderFailed as error:
        yield DoctorFinding(
            f"The identity provider {provider.id} does not answer: {error}",
            f"Look whether it is reached from here, and whether {NAME} has its issuer as it writes that itself.",
        )
        return
    if not keys:
        yield DoctorFinding(
            f"The identity provider {provider.id} publishes no key by which it could sign.",
            "Have it sign ID tokens by RS256 or another public key.",
        )
        return
    ends = (
        "people are signed out there as well" if found.end_session_endpoint else "nobody is signed out there"
    )
    yield Fact(f"The identity provider {provider.id} answers and has {count(len(keys), 'key')}; {ends}.")
