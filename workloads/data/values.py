"""What data sources are: the details of each kind, with a sentence for every mistake."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from chamber import invalid
from chamber.errors import refusal_of
from workloads import paths
from workloads.models import SourceKind

DETAILS: dict[SourceKind, tuple[str, ...]] = {
    SourceKind.CLAIM: (),
    SourceKind.NFS: ("server", "path"),
    SourceKind.S3: ("address",),
}
"""What each kind has. Which claim a cluster has is said where that is said."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9.:-]{0,251}[a-z0-9])?", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)


def details_of(kind: SourceKind, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the details of a source of this kind; raise one `Refusal` with a sentence for each that is wrong."""
    known = DETAILS[kind]
    wrong = {
        str(name): f"A data source of the kind {kind.value} has no {invalid.shown(name)}; it has "
        f"{', '.join(known) or 'nothing but its name'}."
        for name, value in given.items()
        if name not in known and value not in (None, "")
    }
    found = {name: str(given.get(name) or "").strip() for name in known}
    wrong |= {name: told for name in known if (told := _problem(name, found[name]))}
    if wrong:
        raise refusal_of(wrong, code="invalid")
    return found


def _problem(name: str, text: str) -> str:
    if not text:
        return f"{name} is missing."
    if name == "server" and not _HOST.fullmatch(text):
        return f"{invalid.shown(text)} is no host: write a name or an address, such as nfs.example.org."
    if name == "path":
        return paths.problem(text)
    return _address_problem(text) if name == "address" else ""


def _address_problem(text: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme == "s3" and bool(_BUCKET.fullmatch(parts.netloc)) and len(text) <= paths.LONGEST
    except ValueError:
        fine = False
    return (
        ""
        if fine and not re.search(r"[\s?#]", text)
        else (f"{invalid.shown(text)} is no address of S3: write s3://BUCKET or s3://BUCKET/PREFIX.")
    )
