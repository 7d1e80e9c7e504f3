"""What pods get of credentials: variables, files, logins for images, and Secrets of their cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from workloads.credentials.kinds import SecretUse
from workloads.models import Credential, CredentialKind

DIRECTORY = "/var/run/chamber/credentials"
"""Where pods find files of credentials, each credential's in a folder of its name."""
GIT_FILE = ".git-credentials"
GIT_VARIABLES = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0")
DOCKER_HUB = {"docker.io": "https://index.docker.io/v1/", "index.docker.io": "https://index.docker.io/v1/"}
"""Under which name a login for Docker's own registry is looked for."""


@dataclass(frozen=True, slots=True)
class ImageLogin:
    """By which images are pulled from a registry."""

    server: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClusterSecret:
    """A Secret that lies in the namespace of the pods: how they get it, and which variables have which of its keys."""

    secret: str
    use: SecretUse
    folder: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HandedCredentials:
    """All that the pods of one workload get; `files` are by their paths below `DIRECTORY`."""

    variables: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    logins: list[ImageLogin] = field(default_factory=list)
    secrets: list[ClusterSecret] = field(default_factory=list)


def variables_of(row: Credential) -> list[str]:
    """Return the names of the variables that a credential sets."""
    match CredentialKind(row.kind):
        case CredentialKind.TOKEN:
            return [_token_variable(row)]
        case CredentialKind.S3:
            return list(_s3(row.details, dict.fromkeys(row.parts, "-")))
        case CredentialKind.VARIABLES:
            return list(row.parts)
        case CredentialKind.SECRET:
            return list(row.details.get("variables", {}))
    return []


def has_folder(row: Credential) -> bool:
    """Return whether a credential's files lie in a folder of its name."""
    kind = row.kind
    return kind == CredentialKind.FILES or (
        kind == CredentialKind.SECRET and row.details["use"] == SecretUse.FILES
    )


def handed(opened: Iterable[tuple[Credential, Mapping[str, Any]]]) -> HandedCredentials:
    """Return what pods get of these credentials, each with its values."""
    found = HandedCredentials()
    git: list[str] = []
    for row, values in opened:
        details = row.details
        match CredentialKind(row.kind):
            case CredentialKind.TOKEN:
                found.variables[_token_variable(row)] = values["token"]
            case CredentialKind.S3:
                found.variables.update(_s3(details, values))
            case CredentialKind.VARIABLES:
                found.variables.update(values["variables"])
            case CredentialKind.FILES:
                found.files.update({f"{row.name}/{name}": text for name, text in values["files"].items()})
            case CredentialKind.REGISTRY:
                server = DOCKER_HUB.get(details["server"], details["server"])
                found.logins.append(ImageLogin(server, details["username"], values["password"]))
            case CredentialKind.GIT:
                login = f"{quote(details['username'], safe='')}:{quote(values['password'], safe='')}"
                git.append(f"https://{login}@{details['server']}\n")
            case CredentialKind.SECRET:
                use = SecretUse(details["use"])
                found.secrets.append(
                    ClusterSecret(details["secret"], use, row.name, details.get("variables", {}))
                )
    if git:
        found.files[GIT_FILE] = "".join(git)
        helper = f"store --file {DIRECTORY}/{GIT_FILE}"
        found.variables.update(zip(GIT_VARIABLES, ("1", "credential.helper", helper), strict=True))
    return found


def _token_variable(row: Credential) -> str:
    return str(row.details.get("variable") or row.name.upper().replace("-", "_"))


def _s3(details: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    known = {
        "AWS_ACCESS_KEY_ID": values.get("access_key_id"),
        "AWS_SECRET_ACCESS_KEY": values.get("secret_access_key"),
        "AWS_SESSION_TOKEN": values.get("session_token"),
        "AWS_ENDPOINT_URL": details.get("endpoint_url"),
        "AWS_REGION": details.get("region"),
        "AWS_DEFAULT_REGION": details.get("region"),
    }
    return {name: str(value) for name, value in known.items() if value}
