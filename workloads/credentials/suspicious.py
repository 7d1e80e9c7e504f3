"""Variables whose names say that their values are secrets: those are for credentials, not for what everybody keeps.

Whole words are judged, and the last ones only: `HF_TOKEN` and `DB_PASSWORD` name secrets, `TOKENIZER_PATH`,
`TOKEN_COUNT` and `PASSWORD_FILE` do not.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

ALONE = frozenset(
    {"PASSWORD", "PASSWD", "PASSPHRASE", "TOKEN", "SECRET", "SECRETS", "CREDENTIAL", "CREDENTIALS", "APIKEY"}
)
"""Words that name a secret where they come last."""
BEFORE_KEY = frozenset(
    {"API", "PRIVATE", "ACCESS", "SECRET", "ENCRYPTION", "SIGNING", "AUTH", "SSH", "DEPLOY", "LICENSE"}
)
"""Words after which a last `KEY` is a secret."""
OF_TEXT = frozenset(
    {"PAD", "EOS", "BOS", "MASK", "SEP", "CLS", "UNK", "SPECIAL", "START", "END", "STOP", "MAX", "MIN", "PER"}
)
"""Words after which a `TOKEN` is a piece of text."""
ADVICE = (
    "What is in a variable is stored as it is, and shown. Put the value into a credential and name that under "
    "credentials"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.ASCII)


def is_suspicious(name: str) -> bool:
    """Return whether a variable of this name holds a secret, by its last words."""
    words = [word.upper() for word in _WORDS.findall(name)]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "KEY":
        return before in BEFORE_KEY
    return last in ALONE and not (last == "TOKEN" and before in OF_TEXT)


def problem(environment: Mapping[str, str], allowed: Iterable[str], team: str) -> str:
    """Return what is wrong with the names of a workload's variables; "" where nothing is. Empty values are no secrets.

    `allowed` are the names, or patterns of names, that the rules of the `team` take as no secrets.
    """
    patterns = tuple(allowed)
    found = [
        name
        for name, value in environment.items()
        if value and is_suspicious(name) and not any(fnmatchcase(name, each) for each in patterns)
    ]
    if not found:
        return ""
    names = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    them = "it is none" if len(found) == 1 else "they are none"
    return (
        f"{names} {'looks' if len(found) == 1 else 'look'} like a secret by its name. {ADVICE} (chamber credentials "
        f"add). If {them}, an admin can allow the name in the rules of {team} or of a team above "
        "(plain_variables)."
    )
