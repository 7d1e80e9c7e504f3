"""Identity providers as an operator names them: typed, and refused with sentences before anything starts."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self
from urllib.parse import urlsplit

import yaml
from django.conf import settings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from chamber import invalid
from chamber.errors import no_such

NAME = "CHAMBER_IDENTITY_PROVIDERS"
ANY = "*"
"""In a list of groups: whoever the provider lets in."""
_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+", re.ASCII)
OFFLINE = "offline_access"
"""The scope that asks for a refresh token which outlives the session at the provider."""
SYNC_MINUTES = 60
SECRETS = ("client_secret", "scim_token")
LEAST_SCIM_TOKEN = 32


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError(
            f"id is {invalid.shown(text)}; 1 to 30 small letters, digits and hyphens, none at either end, are allowed"
        )
    return text


def _issuer(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"https", "http"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(
            f"issuer is {invalid.shown(text)}; it must be the provider's URL as its tokens name it, such as "
            "https://id.example.org/realms/acme"
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError(
            f"issuer is {invalid.shown(text)}; it must begin with https://, for whoever is on the way could sign in "
            "as anybody"
        )
    return text


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _domain(text: str) -> str:
    domain = text.lower()
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"{invalid.shown(text)} is no domain of e-mail addresses, such as example.org")
    return domain


Domain = Annotated[str, AfterValidator(_domain)]
GroupName = Annotated[str, Field(min_length=1, max_length=255)]


class Provider(BaseModel):
    """One identity provider, and whom it lets in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, AfterValidator(_id)]
    name: Annotated[str, Field(min_length=1, max_length=60)]
    issuer: Annotated[str, Field(max_length=500), AfterValidator(_issuer)]
    client_id: Annotated[str, Field(min_length=1, max_length=191)]
    client_secret: Annotated[str, Field(max_length=1000, repr=False)] = ""
    client_secret_file: Annotated[str, Field(max_length=1000)] = ""
    client_authentication: Literal["", "client_secret_basic", "client_secret_post"] = ""
    scopes: Annotated[tuple[Annotated[str, Field(pattern=r"^\S{1,100}$")], ...], Field(max_length=30)] = (
        *("openid", "profile", "email"),
    )
    groups_claim: Annotated[str, Field(min_length=1, max_length=200)] = "groups"
    username_claim: Annotated[str, Field(min_length=1, max_length=200)] = "preferred_username"
    allowed_domains: Annotated[tuple[Domain, ...], Field(max_length=200)] = ()
    allowed_groups: Annotated[tuple[GroupName, ...], Field(max_length=200)] = ()
    link_by_email: bool = False
    second_factor: bool = False
    sync_minutes: Annotated[int, Field(ge=0, le=1440)] | None = None
    scim_token: Annotated[str, Field(max_length=1000, repr=False)] = ""
    scim_token_file: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if "openid" not in self.scopes:
            raise ValueError("scopes must have 'openid'")
        if self.client_secret and self.client_secret_file:
            raise ValueError("give client_secret or client_secret_file, not both")
        if self.scim_token and self.scim_token_file:
            raise ValueError("give scim_token or scim_token_file, not both")
        if self.scim_token and len(self.scim_token) < LEAST_SCIM_TOKEN:
            raise ValueError(
                f"scim_token has {len(self.scim_token)} characters; the least is {LEAST_SCIM_TOKEN}. Make one by "
                "`openssl rand -hex 32`"
            )
        return self

    @property
    def secret(self) -> str:
        """The client's secret, however it is given."""
        return self.client_secret

    @property
    def provisions(self) -> bool:
        """Whether it keeps people and groups here over SCIM."""
        return bool(self.scim_token)

    @property
    def syncs_every(self) -> int:
        """After how many minutes groups are asked for anew; 0: only when somebody signs in."""
        if self.sync_minutes is not None:
            return self.sync_minutes
        return SYNC_MINUTES if OFFLINE in self.scopes else 0


def read(text: str) -> tuple[Provider, ...]:
    """Return the providers of a setting, in YAML or JSON; raise `SystemExit` with a sentence, telling no secret."""
    try:
        found = yaml.safe_load(text) if text.strip() else []
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        _stop(f"it is no YAML{f' (line {mark.line + 1})' if mark else ''}.")
    if not isinstance(found, list):
        _stop("it must be a list of providers, each a mapping with id, name, issuer and client_id.")
    return _told_apart([_provider(number, each) for number, each in enumerate(found, start=1)])


def _provider(number: int, values: Any) -> Provider:
    what = f"provider {number}"
    if isinstance(values, dict) and isinstance(values.get("id"), str):
        what += f" ({values['id'][:30]})"
    try:
        provider = Provider.model_validate(values)
        return Provider.model_validate({**provider.model_dump(), **_of_files(provider)})
    except ValidationError as error:
        secrets = {key for key in SECRETS if key in invalid.sentences(error)}
        told = [
            f"{where} cannot be that." if where in secrets else sentence
            for where, sentence in invalid.sentences(error).items()
        ]
        _stop(f"{what}: {' '.join(told)}")


def _of_files(provider: Provider) -> dict[str, str]:
    """Return the secrets that lie in files of their own, in place of the names of these; raise `SystemExit`."""
    found: dict[str, str] = {}
    for key in SECRETS:
        if name := getattr(provider, f"{key}_file"):
            try:
                found |= {key: Path(name).read_text().strip(), f"{key}_file": ""}
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is no text"
                _stop(f"provider {provider.id}: {key}_file is no readable file ({why}).")
    return found


def _told_apart(found: list[Provider]) -> tuple[Provider, ...]:
    for key in ("id", "name"):
        values = [getattr(each, key) for each in found]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            _stop(f"the {key} {twice!r} comes twice.")
    return tuple(found)


def _stop(what: str) -> NoReturn:
    raise SystemExit(f"{NAME} cannot be used: {what}")


def providers() -> Sequence[Provider]:
    """Return all, in the order of the setting."""
    found: Sequence[Provider] = settings.IDENTITY_PROVIDERS
    return found


def provider_of(provider_id: str) -> Provider:
    """Return the one with this id; raise `NotVisible` where there is none."""
    for each in providers():
        if each.id == provider_id:
            return each
    raise no_such("identity provider", provider_id)


def by_id(ids: Iterable[str]) -> dict[str, Provider]:
    """Return those of these ids that there are."""
    wanted = set(ids)
    return {each.id: each for each in providers() if each.id in wanted}
