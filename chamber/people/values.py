"""What an account may be called: user names, names and e-mail addresses, and which of them are taken."""

import re
import unicodedata
from collections.abc import Callable

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import QuerySet

from chamber.errors import Conflict, Refusal, refusal_of
from chamber.models import User
from chamber.words import as_name, unfit_for_name

NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,58}[a-z0-9])?", re.ASCII)
RESERVED = frozenset(
    {"anonymous", "chamber", "console", "me", "new", "nobody", "provider", "set-up", "system"}
)
"""In the trail and in addresses these are no person; who has one from before keeps it."""
LONGEST_NAME = 150
NAME_TAKEN = "There is an account with the user name {name} already."
ADDRESS_TAKEN = "There is an account with the e-mail address {email} already."


def refuse_wrong(username: str, name: str, email: str, *, free: bool = True) -> None:
    """Refuse what an account cannot have, every such value at once; with `free`, also what another one has."""
    problems: list[Refusal] = []
    readers: tuple[Callable[[str], object], ...] = (read_username, name_of, read_email)
    if free:
        readers = (username_of, name_of, email_of)
    for read, text in zip(readers, (username, name, email), strict=True):
        try:
            read(text)
        except Refusal as refusal:
            problems.append(refusal)
    if len(problems) > 1:
        raise refusal_of({name: text for each in problems for name, text in each.fields.items()})
    if problems:
        raise problems[0]


def username_of(text: str) -> str:
    """Return a user name that somebody may take; refuse one of another account."""
    name = read_username(text)
    if User.objects.filter(username__iexact=name).exists():
        raise Conflict(NAME_TAKEN.format(name=name), field="username")
    return name


def read_username(text: str) -> str:
    """Return a user name of a new account; refuse what is none, and what means no person."""
    name = text.strip()
    if name in RESERVED:
        raise Refusal(
            f"{name!r} is not to be had: Chamber itself uses the names {', '.join(sorted(RESERVED))}. Choose another.",
            field="username",
        )
    if not NAME.fullmatch(name):
        raise Refusal(
            f"{name[:80]!r} is no user name: use 1 to 60 small letters, digits, dots, hyphens and underscores, "
            "the first and the last a letter or digit.",
            field="username",
        )
    return name


def name_of(text: str) -> tuple[str, str]:
    """Return first names and the last name; refuse what cannot be seen, which may make one name look like another."""
    name = as_name(text)
    if problem := unfit_for_name(name):
        raise Refusal(problem, field="name")
    first, _, last = name.rpartition(" ")
    first, last = (first, last) if first else (last, "")
    if len(name) > LONGEST_NAME:
        raise Refusal(
            f"The name has {len(name)} characters; at most {LONGEST_NAME} are allowed.", field="name"
        )
    return first, last


def is_free(user: User, email: str) -> bool:
    """Return whether somebody may take an e-mail address, or another account has it; refuse what is none."""
    return not _others(read_email(email), but=user).exists()


def email_of(text: str, *, but: User | None = None) -> str:
    """Return an e-mail address that somebody may take; refuse one of another account."""
    email = read_email(text)
    if email and _others(email, but=but).exists():
        raise Conflict(ADDRESS_TAKEN.format(email=email), field="email")
    return email


def _others(email: str, *, but: User | None) -> QuerySet[User]:
    others = User.objects.exclude(pk=but.pk) if but else User.objects.all()
    return others.filter(email=email)


def read_email(text: str) -> str:
    """Return an e-mail address in small letters; refuse what is none."""
    email = text.strip().lower()
    if not email:
        return ""
    try:
        validate_email(email)
    except ValidationError:
        raise Refusal(f"{email[:80]!r} is no e-mail address.", field="email") from None
    if not email.isprintable() or unicodedata.normalize("NFKC", email) != email:
        raise Refusal(
            f"{email[:80]!r} has characters that cannot be seen or that stand for others; give the address without.",
            field="email",
        )
    if len(email) > 254:
        raise Refusal(
            f"The e-mail address has {len(email)} characters; at most 254 are allowed.", field="email"
        )
    return email
