"""What each kind of credential has, and how what somebody gives becomes that: a sentence for every mistake, none of
which quotes a secret.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from chamber import invalid
from chamber.errors import Refusal
from workloads.models import CredentialKind

MOST_BYTES = 16 * 1024
"""Of all values of one credential together: an agent is told of a workload in one message of at most 1 MiB."""
MOST_ENTRIES = 50
"""Variables, or files, of one credential."""
MOST_TEXT = 300
OURS = ("CHAMBER_", "GIT_CONFIG_", "PET_")
"""With these the variables begin that Chamber sets itself."""
OURS_WHOLE = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "NODE_RANK"}
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*|\.[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?", re.ASCII)
_SECRET = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


class SecretUse(StrEnum):
    """How pods get a Secret of the cluster."""

    VARIABLES = "variables"
    FILES = "files"
    REGISTRY = "registry"


class PartShape(StrEnum):
    """How a part is given."""

    LINE = "line"
    PAIRS = "pairs"
    FILES = "files"


Check = Callable[[str], str]
"""Returns what is wrong with a value, "" where nothing is."""


def _any(_: str) -> str:
    return ""


def variable_problem(name: str) -> str:
    """Return what is wrong with the name of a variable that a credential sets; "" where nothing is."""
    if not _VARIABLE.fullmatch(name) or len(name) > MOST_TEXT:
        return (
            f"{invalid.shown(name)} is no name of an environment variable: use letters, digits and underscores, and "
            "begin with none of the digits."
        )
    if name.startswith(OURS) or name in OURS_WHOLE:
        return (
            f"{name} is set by Chamber itself. Choose another name: one that does not begin with "
            f"{', '.join(OURS[:-1])} or {OURS[-1]}, and is none of {', '.join(sorted(OURS_WHOLE))}."
        )
    return ""


def _file_problem(name: str) -> str:
    if _FILE.fullmatch(name) and len(name) <= 100:
        return ""
    return (
        f"{invalid.shown(name)} is no name of a file: use up to 100 letters, digits, dots, hyphens and underscores, "
        "and no slash."
    )


def _host_problem(text: str) -> str:
    if _HOST.fullmatch(text):
        return ""
    return f"{invalid.shown(text)} is no host: write a name such as registry.example.org or git.example.org:8443."


def _endpoint_problem(text: str) -> str:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "endpoint_url is no address; write one such as https://s3.example.org."
    if parts.username is not None or parts.password is not None:
        return "endpoint_url has a user name or a password in it; give it without, such as https://s3.example.org."
    if whole and not re.search(r"\s", text):
        return ""
    return f"{invalid.shown(text)} is no address; write one such as https://s3.example.org."


def _username_problem(text: str) -> str:
    return "" if ":" not in text else f"{invalid.shown(text)} is no user name: it may hold no colon."


def _secret_problem(text: str) -> str:
    if _SECRET.fullmatch(text) and len(text) <= 253:
        return ""
    return f"{invalid.shown(text)} is no name of a Secret: use small letters, digits, hyphens and dots."


def _use_problem(text: str) -> str:
    allowed = [each.value for each in SecretUse]
    return "" if text in allowed else invalid.not_among("use", text, allowed)


def _key_problem(text: str) -> str:
    return "" if _KEY.fullmatch(text) else f"{invalid.shown(text)} is no key of a Secret."


@dataclass(frozen=True, slots=True)
class CredentialPart:
    """Something that a kind of credential has. What is no `secret` is shown; `check_value` is never told of secrets."""

    name: str
    label: str
    secret: bool = False
    required: bool = True
    help: str = ""
    shape: PartShape = PartShape.LINE
    check_name: Check = _any
    check_value: Check = _any


_TOKEN = CredentialPart("token", "Token", secret=True)
PARTS: Mapping[CredentialKind, tuple[CredentialPart, ...]] = {
    CredentialKind.TOKEN: (
        CredentialPart(
            "variable",
            "Variable",
            required=False,
            help="The variable that pods have it in. Empty: the name in capitals.",
            check_value=variable_problem,
        ),
        _TOKEN,
    ),
    CredentialKind.S3: (
        CredentialPart(
            "endpoint_url",
            "Endpoint",
            required=False,
            help="Empty: that of AWS.",
            check_value=_endpoint_problem,
        ),
        CredentialPart("region", "Region", required=False, check_value=_host_problem),
        CredentialPart("access_key_id", "Access key ID", secret=True),
        CredentialPart("secret_access_key", "Secret access key", secret=True),
        CredentialPart("session_token", "Session token", secret=True, required=False),
    ),
    CredentialKind.REGISTRY: (
        CredentialPart(
            "server", "Registry", help="Its host, such as registry.example.org.", check_value=_host_problem
        ),
        CredentialPart("username", "User name", check_value=_username_problem),
        CredentialPart("password", "Password or token", secret=True),
    ),
    CredentialKind.GIT: (
        CredentialPart("server", "Host", help="Such as git.example.org.", check_value=_host_problem),
        CredentialPart("username", "User name", check_value=_username_problem),
        CredentialPart("password", "Password or token", secret=True),
    ),
    CredentialKind.VARIABLES: (
        CredentialPart(
            "variables",
            "Variables",
            secret=True,
            help="NAME=value, one on each line.",
            shape=PartShape.PAIRS,
            check_name=variable_problem,
        ),
    ),
    CredentialKind.FILES: (
        CredentialPart("files", "Files", secret=True, shape=PartShape.FILES, check_name=_file_problem),
    ),
    CredentialKind.SECRET: (
        CredentialPart(
            "secret",
            "Name of the Secret",
            help="In the namespace where the team's workloads run; the team's rules must name it.",
            check_value=_secret_problem,
        ),
        CredentialPart(
            "use",
            "Pods get it as",
            help="variables, files, or registry (to pull images).",
            check_value=_use_problem,
        ),
        CredentialPart(
            "variables",
            "Variables",
            required=False,
            help="NAME=key, one on each line, for variables only.",
            shape=PartShape.PAIRS,
            check_name=variable_problem,
            check_value=_key_problem,
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class CredentialContent:
    """What a credential has: what is shown, and what is not."""

    details: dict[str, Any]
    secrets: dict[str, Any] = field(repr=False)

    @property
    def parts(self) -> list[str]:
        """The names of the secrets: of variables and files their own."""
        found: list[str] = []
        for name, value in self.secrets.items():
            found += list(value) if isinstance(value, dict) else [name]
        return found


def read(kind: CredentialKind, given: Mapping[str, Any]) -> CredentialContent:
    """Return what was given of a credential of this kind; raise a `Refusal` with a sentence for each wrong part."""
    parts = {part.name: part for part in PARTS[kind]}
    wrong = {
        str(
            name
        ): f"A credential of the type {kind.value} has no {invalid.shown(name)}; it has {', '.join(parts)}."
        for name in given
        if name not in parts
    }
    content = CredentialContent({}, {})
    for part in parts.values():
        value, problem = _value(part, given.get(part.name))
        if problem:
            wrong[part.name] = problem
        elif value:
            (content.secrets if part.secret else content.details)[part.name] = value
    wrong = wrong or _contradictions(kind, content)
    size = len(json.dumps([content.details, content.secrets], ensure_ascii=False).encode("utf-8", "replace"))
    if not wrong and size > MOST_BYTES:
        told = f"Its values have {size:,} bytes together; at most {MOST_BYTES:,} are allowed."
        wrong = {next(part.name for part in reversed(PARTS[kind])): told}
    if wrong:
        raise Refusal(" ".join(wrong.values()), fields=wrong, code="invalid")
    return content


def _contradictions(kind: CredentialKind, content: CredentialContent) -> dict[str, str]:
    if kind is CredentialKind.SECRET:
        use, variables = content.details["use"], content.details.get("variables")
        if variables and use != SecretUse.VARIABLES:
            return {"variables": f"Variables are for a Secret that pods get as variables; this one is {use}."}
        if use == SecretUse.VARIABLES and not variables:
            return {
                "variables": "Say which variables have which keys of the Secret: NAME=key, one on each line."
            }
    return {}


def _value(part: CredentialPart, given: object) -> tuple[Any, str]:
    """Return the value, and what is wrong with it."""
    value = given.strip() if isinstance(given, str) else given
    if value is None or value in ("", {}):
        return None, f"{part.name} is missing." if part.required else ""
    if part.shape is not PartShape.LINE:
        return _mapping(part, value)
    if not isinstance(value, str):
        return None, f"{part.name} must be text."
    return value, _unfit(part.name, value) or _line_problem(part, value)


def _line_problem(part: CredentialPart, text: str) -> str:
    if "\n" in text or "\r" in text:
        return f"{part.name} has several lines; give one."
    return "" if part.secret else _plain_problem(part, text)


def _plain_problem(part: CredentialPart, text: str) -> str:
    if len(text) > MOST_TEXT:
        return f"{part.name} has {len(text):,} characters; at most {MOST_TEXT} are allowed."
    return part.check_value(text)


def _mapping(part: CredentialPart, given: object) -> tuple[Any, str]:
    if not isinstance(given, Mapping):
        return None, f"{part.name} must be a mapping of names to texts."
    if len(given) > MOST_ENTRIES:
        return None, f"{part.name} has {len(given)} entries; at most {MOST_ENTRIES} are allowed."
    for name, text in given.items():
        if problem := part.check_name(str(name)):
            return None, problem
        if not isinstance(text, str):
            return None, f"{name} must be text; write it in quotes."
        if problem := _unfit(str(name), text) or ("" if part.secret else part.check_value(text)):
            return None, problem
    return {str(name): text for name, text in given.items()}, ""


def _unfit(name: str, text: str) -> str:
    if "\x00" in text:
        return f"{name} holds a NUL character, which no variable and no message can."
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{name} holds characters that are no text; give binary data as base64."
    return ""
