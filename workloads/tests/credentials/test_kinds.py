"""What each kind of credential takes, and what is refused of it: never with a secret in the sentence."""

from typing import Any

import pytest

from chamber.errors import Refusal
from workloads.credentials import kinds
from workloads.models import CredentialKind
from workloads.tests.credentials.conftest import CONTENTS, MARKER


@pytest.mark.parametrize("kind", CredentialKind)
def test_each_kind_takes_what_it_has_and_keeps_secrets_apart(kind: CredentialKind) -> None:
    content = kinds.read(kind, CONTENTS[kind])
    assert MARKER not in repr(content)
    assert MARKER not in str(content.details)
    assert {**content.details, **content.secrets} == CONTENTS[kind]


def test_parts_are_the_names_of_secrets() -> None:
    assert kinds.read(CredentialKind.S3, CONTENTS["s3"]).parts == ["access_key_id", "secret_access_key"]
    assert kinds.read(CredentialKind.VARIABLES, CONTENTS["variables"]).parts == ["DB_PASSWORD", "DB_USER"]
    assert kinds.read(CredentialKind.FILES, CONTENTS["files"]).parts == ["key.json"]


WRONG: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "nothing": ("token", {}, "token", "token is missing."),
    "blanks": ("token", {"token": "  "}, "token", "token is missing."),
    "unknown": ("token", {"token": "x", "user": "y"}, "user", "has no 'user'; it has variable, token."),
    "number": ("token", {"token": 81234567}, "token", "token must be text."),
    "lines": ("token", {"token": f"{MARKER}\nb"}, "token", "token has several lines; give one."),
    "nul": ("token", {"token": f"{MARKER}\x00"}, "token", "token holds a NUL character"),
    "half": ("token", {"token": "\ud800"}, "token", "give binary data as base64"),
    "large": ("token", {"token": MARKER * 1000}, "token", "bytes together; at most 16,384 are allowed."),
    "variable": (
        "token",
        {"token": MARKER, "variable": "1A"},
        "variable",
        "'1A' is no name of an environment",
    ),
    "ours": (
        "token",
        {"token": MARKER, "variable": "CHAMBER_TEAM"},
        "variable",
        "CHAMBER_TEAM is set by Chamber itself. Choose another name",
    ),
    "rank": ("variables", {"variables": {"RANK": MARKER}}, "variables", "RANK is set by Chamber itself."),
    "no text": ("variables", {"variables": {"A": 81234567}}, "variables", "A must be text"),
    "no mapping": ("variables", {"variables": MARKER}, "variables", "must be a mapping of names to texts."),
    "many": (
        "variables",
        {"variables": {f"A{n}": "b" for n in range(51)}},
        "variables",
        "51 entries; at most 50",
    ),
    "path": ("files", {"files": {"../key": MARKER}}, "files", "'../key' is no name of a file"),
    "dots": ("files", {"files": {"..": MARKER}}, "files", "'..' is no name of a file"),
    "address": (
        "s3",
        {**CONTENTS["s3"], "endpoint_url": f"https://ada:{MARKER}@s3.example.org"},
        "endpoint_url",
        "endpoint_url has a user name or a password in it",
    ),
    "host": ("git", {**CONTENTS["git"], "server": "https://x/"}, "server", "'https://x/' is no host"),
    "colon": ("git", {**CONTENTS["git"], "username": "a:b"}, "username", "it may hold no colon."),
    "use": ("secret", {"secret": "a", "use": "env"}, "use", "allowed"),
    "no keys": ("secret", {"secret": "a", "use": "variables"}, "variables", "Say which variables"),
    "keys": (
        "secret",
        {"secret": "a", "use": "files", "variables": {"A": "b"}},
        "variables",
        "this one is files.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_at_its_part_without_the_secret(case: str) -> None:
    kind, content, field, sentence = WRONG[case]
    with pytest.raises(Refusal) as caught:
        kinds.read(CredentialKind(kind), content)
    assert list(caught.value.fields) == [field]
    assert sentence in caught.value.fields[field]
    told = f"{caught.value.message} {caught.value.fields}"
    assert MARKER not in told
    assert "81234567" not in told
